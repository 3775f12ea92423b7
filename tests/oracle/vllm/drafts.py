"""The model that drafts for speculative decoding, as vLLM's own speculator loads it beside the target."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

_LOADERS = ("standalone_ar.speculator", "eagle.utils")
"""Modules of vLLM's speculators that load a model."""


def install(load: Callable[[Any, Any, str], Any]) -> None:
    """Replaces how speculators load a model: by `load`, which takes configuration, model and prefix."""

    def get_model(*, vllm_config: Any, model_config: Any = None, prefix: str = "", **_: Any) -> Any:
        return load(vllm_config, model_config or vllm_config.model_config, prefix)

    for name in _LOADERS:
        module: Any = importlib.import_module(f"vllm.v1.worker.gpu.spec_decode.{name}")
        module.get_model = get_model


def speculator_of(config: Any) -> Any | None:
    """The speculator of this rank, which the model runner makes before it loads a model. None: it has none."""
    from vllm.distributed.parallel_state import get_pp_group
    from vllm.v1.worker.gpu.spec_decode import init_speculator

    if config.speculative_config is None or not get_pp_group().is_last_rank:
        return None
    return init_speculator(config, torch.device("meta"), None)
