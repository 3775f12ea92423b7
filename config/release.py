"""Which keys of a stack file are its release, and which its place.

The release decides what answers: model, lock, engine. A promotion carries it from stack to stack. The place decides on
what and how much: cluster, nodes, sizes. It stays. A new key of the stack file goes on one of the two lists.
"""

from config.stack.sections import StackConfig

RELEASE = (
    "model.repository",
    "model.allow_unpinned",
    "model.revision",
    "model.include",
    "model.draft",
    "stage.lock",
    "stage.draft_lock",
    "engine.name",
    "engine.version",
    "engine.image",
    "engine.kv_cache_dtype",
    "engine.quantization",
    "engine.speculative_tokens",
    "engine.yarn_factor",
    "engine.yarn_original_context",
    "engine.mm_encoder_tp_mode",
    "engine.language_model_only",
    "engine.enable_prefix_caching",
    "engine.model_file",
    "engine.environment",
    "engine.extra_args",
)
"""Keys that a promotion copies, as section and key."""

PLACE = (
    "cluster.kubeconfig",
    "cluster.context",
    "cluster.namespace",
    "aws.region",
    "aws.cluster",
    "aws.cidr",
    "aws.public_access_cidrs",
    "aws.mirror",
    "nodes.kind",
    "nodes.names",
    "nodes.instance_type",
    "nodes.count",
    "nodes.zone",
    "nodes.capacity",
    "nodes.gpu",
    "nodes.gpus_per_node",
    "nodes.driver",
    "nodes.nvme_path",
    "nodes.fabric",
    "nodes.taints",
    "nodes.allow_replacement",
    "nodes.install",
    "nodes.usd_per_gpu_hour",
    "weights.kind",
    "weights.path",
    "weights.storage_class",
    "weights.size",
    "weights.keep_revisions",
    "weights.keep_newest",
    "weights.retain",
    "weights.cache",
    "weights.verify",
    "weights.read_bandwidth",
    "stage.image",
    "stage.sources",
    "stage.native_xet",
    "stage.bandwidth",
    "stage.fan_out",
    "stage.node_bandwidth",
    "stage.streams",
    "stage.environment",
    "stage.secret",
    "stage.service_account",
    "engine.tensor_parallel",
    "engine.pipeline_parallel",
    "engine.data_parallel",
    "engine.replicas",
    "engine.expert_parallel",
    "engine.prefill_context_parallel",
    "engine.decode_context_parallel",
    "engine.max_model_len",
    "engine.max_num_seqs",
    "engine.max_num_batched_tokens",
    "engine.gpu_memory_utilization",
    "engine.block_size",
    "engine.expert_offload",
    "engine.load_format",
    "engine.sleep_idle_seconds",
    "engine.cpu_offload_gb",
    "engine.kv_offload",
    "engine.max_num_queued_reqs",
    "engine.redundant_experts",
    "engine.max_loras",
    "engine.max_lora_rank",
    "engine.enforce_eager",
    "engine.host",
    "engine.served_name",
    "engine.cpus",
    "engine.memory",
    "engine.drain",
    "network.from",
    "network.media",
    "pod.server",
    "pod.stage",
    "security.profile",
    "security.user",
    "security.group",
    "expose.gateway",
    "expose.hostname",
    "expose.paths",
    "metrics.kind",
    "metrics.labels",
    "metrics.alerts",
    "metrics.dashboard",
    "metrics.ttft_seconds",
    "promotion.from",
    "promotion.soak",
    "promotion.allow_unproven",
)
"""Keys that a promotion leaves as they are. The secrets `hub_token` and `api_key` are none of these: they are never
read."""


def differing_keys(one: StackConfig, other: StackConfig) -> list[str]:
    """The keys of the release in which two stacks differ, in the order of `RELEASE`."""
    first, second = one.model_dump(), other.model_dump()
    return [path for path in RELEASE if _value(first, path) != _value(second, path)]


def _value(stack: dict[str, dict[str, object]], path: str) -> object:
    section, key = path.split(".")
    return stack[section][key]
