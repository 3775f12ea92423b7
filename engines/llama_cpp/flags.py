"""Flags of llama-server that a stack's extra arguments may not set, and those that change no memory."""

from config.engine_name import EngineName
from engines.llama_cpp.placement import PLACEMENT_FLAGS
from engines.llama_cpp.process import KEYED
from engines.rules.arguments import KEY_IN_PLAIN_TEXT, FlagRules

FLAGS = FlagRules(
    engine=EngineName.LLAMA_CPP,
    of_the_plan={
        "--ctx-size": "max_model_len",
        "--parallel": "max_num_seqs",
        "--cache-type-k": "kv_cache_dtype",
        "--cache-type-v": "kv_cache_dtype",
        "--cpu-moe": "expert_offload",
        "--sleep-idle-seconds": "sleep_idle_seconds",
    },
    harmless=frozenset(
        {
            *("--adaptive-decay", "--adaptive-target", "--api-key-file", "--cache-prompt", "--cache-reuse"),
            *("--chat-template", "--chat-template-file", "--chat-template-kwargs", "--check-tensors"),
            *("--cont-batching", "--context-shift", "--cors-credentials", "--cors-headers", "--cors-methods"),
            *("--cors-origins", "--cpu-mask", "--cpu-mask-batch", "--cpu-range", "--cpu-range-batch", "--cpu-strict"),
            *("--cpu-strict-batch", "--dry-allowed-length", "--dry-base", "--dry-multiplier", "--dry-penalty-last-n"),
            *("--dry-sequence-breaker", "--dynatemp-exp", "--dynatemp-range", "--escape", "--frequency-penalty"),
            *("--grammar", "--grammar-file", "--ignore-eos", "--jinja", "--json-schema", "--json-schema-file"),
            *("--keep", "--log-colors", "--log-disable", "--log-file", "--log-jsonl", "--log-prefix"),
            *("--log-timestamps", "--logit-bias", "--metrics", "--min-p", "--mirostat", "--mirostat-ent"),
            *("--mirostat-lr", "--numa", "--offline", "--path", "--perf", "--poll", "--poll-batch", "--predict"),
            *("--prefill-assistant", "--presence-penalty", "--prio", "--prio-batch", "--props", "--reasoning"),
            *("--reasoning-budget", "--reasoning-budget-message", "--reasoning-effort", "--reasoning-format"),
            *("--reasoning-preserve", "--repeat-last-n", "--repeat-penalty", "--reuse-port", "--reverse-prompt"),
            *("--sampler-seq", "--samplers", "--seed", "--skip-chat-parsing", "--slot-prompt-similarity", "--slots"),
            *("--special", "--spm-infill", "--sse-ping-interval", "--tags", "--temp", "--threads", "--threads-batch"),
            *("--threads-http", "--timeout", "--top-k", "--top-nsigma", "--top-p", "--typical", "--ui"),
            *("--ui-config", "--ui-config-file", "--verbose", "--verbosity", "--warmup", "--xtc-probability"),
            *("--xtc-threshold", "--no-cont-batching", "--no-ui", "--no-mmproj"),
        }
    ),
    counted=PLACEMENT_FLAGS,
    only_add=frozenset(
        {
            *("--mmproj", "--mmproj-url", "--spec-draft-model", "--spec-draft-hf", "--spec-type", "--spec-default"),
            *("--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled", "--moe-cache-mib"),
        }
    ),
    of_the_server=frozenset({"--model", "--model-url", "--hf-repo", "--alias", "--host", "--port"}),
    # A flag's other name (tools/server/README.md), and memory of the host in place of the GPU's (docs/build.md).
    environment=("LLAMA_ARG_*", "GGML_CUDA_ENABLE_UNIFIED_MEMORY"),
    refused_environment={KEYED.variable: KEY_IN_PLAIN_TEXT},
)
