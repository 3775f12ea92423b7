"""SGLang's arithmetic of the KV cache: the bytes of a token on one rank, and the tokens that a size holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def planned(arguments: Any, model: Any, config: Any, available: int) -> dict[str, Any]:
    """The cache of one rank with so many bytes, as its model runner configures it.

    Raises ValueError for layers that do not all grow alike: SGLang sizes their pools from measured memory.
    """
    from sglang.srt.configs.hybrid_arch import mambaish_config
    from sglang.srt.configs.model_config import AttentionArch
    from sglang.srt.mem_cache.kv_cache_dtype import configure_kv_cache_dtype
    from sglang.srt.model_executor.model_runner_components.layer_setup import resolve_layer_indices
    from sglang.srt.model_executor.pool_configurator import DefaultPoolConfigurator, create_memory_pool_configurator
    from sglang.srt.runtime_context import get_model, get_schedule
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    name, dtype = configure_kv_cache_dtype(
        server_args_kv_cache_dtype=get_model().kv_cache_dtype,
        model=model,
        model_dtype=config.dtype,
        is_draft_worker=False,
        is_dflash=False,
        speculative_draft_attention_backend="",
    )
    runner = SimpleNamespace(
        model_config=config,
        server_args=arguments,
        kv_cache_dtype=dtype,
        kv_cache_dtype_str=name or get_model().kv_cache_dtype,
        use_mla_backend=config.attention_arch == AttentionArch.MLA,
        layer_info=resolve_layer_indices(model=model, model_config=config, is_draft_worker=False),
        is_draft_worker=False,
        mambaish_config=None,
        is_hybrid_swa=config.is_hybrid_swa,
        spec_algorithm=SpeculativeAlgorithm.from_string(None),
        page_size=get_schedule().page_size,
        pp_size=arguments.pp_size,
    )
    if config.is_hybrid_swa or mambaish_config(config):
        raise ValueError("layers whose cache is not a plain one")
    pool = create_memory_pool_configurator(runner)
    if type(pool) is not DefaultPoolConfigurator:
        raise ValueError(f"a cache by {type(pool).__name__}")
    page = get_schedule().page_size
    return {
        "layers": runner.layer_info.num_effective_layers,
        "dtype": str(dtype).removeprefix("torch."),
        "page": page,
        "bytes_per_token": pool._cell_size,
        "tokens": pool.calculate_pool_sizes(available, page).max_total_num_tokens,
    }
