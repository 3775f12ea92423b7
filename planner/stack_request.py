"""Converts a stack to a planner request: the only module that maps stack keys to request fields."""

from __future__ import annotations

from pathlib import Path

from config.bandwidth import bytes_per_second
from config.catalogue import CapacityKind
from config.quantity import quantity_bytes
from config.stack.file import read_stack_file, stack_file
from config.stack.sections import StackConfig, WeightsKind
from config.stack.weights import WeightsLock, draft_lock_of, lock_of
from engines.request import (
    DEFAULT_NODE_BYTES_PER_SECOND,
    DEFAULT_READ_BYTES_PER_SECOND,
    DEFAULT_STAGING_BYTES_PER_SECOND,
    Deployment,
    FitRequest,
)


def request_of_named_stack(name: str, program: Path = Path()) -> FitRequest:
    """The request of `Pulumi.<name>.yaml` in the program's directory, with its lock file if it names one.

    Raises config.errors.StackError.
    """
    stack = read_stack_file(stack_file(name, program))
    stack.promotion.require_another(name)
    return request_of_stack(stack, lock_of(stack, program), draft_lock_of(stack, program))


def request_of_stack(stack: StackConfig, lock: WeightsLock | None, draft_lock: WeightsLock | None = None) -> FitRequest:
    """The request of a stack. Sizes come from the lock files, where there are any.

    With several replicas, the request describes one replica on its share of the nodes, and the cost of all nodes.
    """
    nodes, model, weights, stage, engine = stack.nodes, stack.model, stack.weights, stack.stage, stack.engine
    bandwidth = bytes_per_second(stage.bandwidth) if stage.bandwidth else DEFAULT_STAGING_BYTES_PER_SECOND
    return FitRequest(
        model=model.repository,
        weights_bytes=lock.total_bytes if lock else None,
        include=tuple(model.include),
        gpu=nodes.gpu,
        nodes=max(1, nodes.total // engine.replicas),
        gpus_per_node=nodes.gpus_per_node,
        fabric=nodes.fabric.kind if nodes.fabric else None,
        driver=nodes.driver,
        instance_type=nodes.instance_type,
        capacity=nodes.capacity.kind if nodes.capacity else CapacityKind.ON_DEMAND,
        usd_per_gpu_hour=nodes.usd_per_gpu_hour,
        host_memory_bytes=quantity_bytes(engine.memory) if engine.memory else None,
        engine=engine.name,
        engine_version=engine.version,
        tensor_parallel=engine.tensor_parallel,
        pipeline_parallel=engine.pipeline_parallel,
        data_parallel=engine.data_parallel,
        expert_parallel=engine.expert_parallel,
        prefill_context_parallel=engine.prefill_context_parallel,
        decode_context_parallel=engine.decode_context_parallel,
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        kv_cache_dtype=engine.kv_cache_dtype,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        block_size=engine.block_size,
        quantization=engine.quantization,
        mm_encoder_tp_mode=engine.mm_encoder_tp_mode,
        language_model_only=engine.language_model_only,
        enable_prefix_caching=engine.enable_prefix_caching,
        max_loras=engine.max_loras,
        max_lora_rank=engine.max_lora_rank,
        speculative_tokens=engine.speculative_tokens,
        draft=model.draft.repository if model.draft else None,
        draft_include=tuple(model.draft.include) if model.draft else (),
        draft_weights_bytes=draft_lock.total_bytes if draft_lock else None,
        yarn_factor=engine.yarn_factor,
        yarn_original_context=engine.yarn_original_context,
        enforce_eager=engine.enforce_eager,
        redundant_experts=engine.redundant_experts,
        cpu_offload_gb=engine.cpu_offload_gb,
        kv_offload=quantity_bytes(engine.kv_offload) if engine.kv_offload else None,
        max_num_queued_reqs=engine.max_num_queued_reqs,
        load_format=engine.load_format,
        expert_offload=engine.expert_offload,
        sleep_idle_seconds=engine.sleep_idle_seconds,
        extra_args=tuple(engine.extra_args),
        model_file=engine.model_file,
        deployment=Deployment(
            nodes=nodes.total,
            makes_cluster=stack.aws is not None and stack.aws.makes_cluster,
            zone=nodes.zone,
            replicas=engine.replicas,
            cpus=engine.cpus,
            drain_seconds=engine.drain,
            volume_has_size=weights.kind is not WeightsKind.HOST_PATH,
            locked_files=tuple(lock.files) if lock else None,
            image=engine.image,
            environment=tuple(engine.environment),
        ),
        keep_cache=weights.cache,
        keep_revisions=weights.keep_revisions,
        volume_bytes=quantity_bytes(weights.size) if weights.size else None,
        staging_bytes_per_second=bandwidth,
        read_bytes_per_second=(
            bytes_per_second(weights.read_bandwidth) if weights.read_bandwidth else DEFAULT_READ_BYTES_PER_SECOND
        ),
        staging_nodes=stack.staging_nodes,
        node_bytes_per_second=_node_bandwidth(stack) if stack.fan_out else None,
    )


def _node_bandwidth(stack: StackConfig) -> float:
    stated = stack.stage.node_bandwidth
    return bytes_per_second(stated) if stated else DEFAULT_NODE_BYTES_PER_SECOND
