"""vLLM's KV cache planner: what its engine does between loading the weights and allocating the cache."""

from __future__ import annotations

import collections
import pickle
from typing import Any

import vllm.platforms


def layer_specs(config: Any) -> dict[str, Any]:
    """What each layer of this rank's model asks of the cache."""
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

    vllm.platforms.current_platform.update_block_size_for_backend(config)
    register_all_kvcache_specs(config)
    found: dict[str, Any] = get_kv_cache_spec(config)
    return found


def described_layers(specs: dict[str, Any]) -> list[dict[str, Any]]:
    """Layers that are alike, counted: their kind, the tokens of a block and the bytes of a page."""
    counted = collections.Counter(
        (type(spec).__name__, spec.block_size, spec.page_size_bytes, getattr(spec, "sliding_window", None))
        for spec in specs.values()
    )
    return [
        {"layers": count, "kind": kind, "block": block, "page": page} | ({"window": window} if window else {})
        for (kind, block, page, window), count in sorted(counted.items(), key=str)
    ]


def backends(config: Any) -> dict[str, int]:
    """Attention backends of this rank's layers, counted."""
    layers = config.compilation_config.static_forward_context.values()
    found = (layer.get_attn_backend().get_name() for layer in layers if hasattr(layer, "get_attn_backend"))
    return dict(sorted(collections.Counter(found).items()))


def planned(config: Any, of_stages: list[bytes], available: int) -> dict[str, Any]:
    """The cache of an engine whose stages pickled these specs, with that many bytes on each GPU.

    Raises ValueError as vLLM does where the context does not fit.
    """
    from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
    from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
    from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups, get_kv_cache_configs
    from vllm.v1.core.kv_cache_utils import generate_scheduler_kv_cache_config, get_kv_cache_capacity

    specs = [pickle.loads(stage) for stage in of_stages]  # noqa: S301 -- made by this process's own siblings
    layouts = [layout.name for layout in get_supported_kv_cache_layouts(get_current_attn_backends(config))]
    layout = resolve_kv_cache_layout(
        config, [layouts] * len(specs), [each for stage in specs for each in stage.values()]
    )
    groups = get_global_kv_cache_groups(config, specs)
    config.adjust_dcp_kv_cache_interleave_size(groups)
    made = get_kv_cache_configs(config, specs, [available] * len(specs), groups)
    result = generate_scheduler_kv_cache_config(made)
    tokens, _ = get_kv_cache_capacity(config, result)
    return {
        "block": config.cache_config.block_size,
        "dtype": config.cache_config.cache_dtype,
        "layout": layout.name,
        "groups": [
            {
                "layers": len(group.layer_names),
                "kind": type(group.kv_cache_spec).__name__,
                "block": group.kv_cache_spec.block_size,
                "page": group.kv_cache_spec.page_size_bytes,
            }
            for group in groups
        ],
        "blocks": result.num_blocks,
        "tokens": tokens,
    }
