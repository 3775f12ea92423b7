"""Converts a stack to a planner request: the only module that maps stack keys to request fields."""

from __future__ import annotations

from pathlib import Path

from config.bandwidth import bytes_per_second
from config.catalogue import CapacityKind
from config.quantity import quantity_bytes
from config.stack.file import read_stack_file, stack_file
from config.stack.sections import StackConfig, WeightsKind
from config.stack.weights import WeightsLock, read_lock
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
    lock = read_lock(program / stack.stage.lock, stack.model) if stack.stage.lock else None
    return request_of_stack(stack, lock)


def request_of_stack(stack: StackConfig, lock: WeightsLock | None) -> FitRequest:
    """The request of a stack. Sizes come from the lock file if there is one.

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
        yarn_factor=engine.yarn_factor,
        yarn_original_context=engine.yarn_original_context,
        enforce_eager=engine.enforce_eager,
        redundant_experts=engine.redundant_experts,
        cpu_offload_gb=engine.cpu_offload_gb,
        expert_offload=engine.expert_offload,
        extra_args=tuple(engine.extra_args),
        model_file=engine.model_file,
        deployment=Deployment(
            nodes=nodes.total,
            makes_cluster=stack.aws is not None and stack.aws.makes_cluster,
            replicas=engine.replicas,
            cpus=engine.cpus,
            drain_seconds=engine.drain,
            volume_has_size=weights.kind is not WeightsKind.HOST_PATH,
            locked_files=tuple(lock.files) if lock else None,
            image=engine.image,
            environment=tuple(engine.environment),
        ),
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
