"""One rank of one pair: its model built, its weights processed, and what it then holds."""

from __future__ import annotations

import collections
import traceback
from typing import Any

import sglang.srt.model_loader.loader as loader
import torch

from tests.oracle.engine.answers import said
from tests.oracle.engine.meta import OnMeta, live_bytes
from tests.oracle.sglang import ranks


def install() -> None:
    """Replaces how SGLang makes a group of ranks."""
    ranks.install()


def published(directory: str, arguments: dict[str, Any], rank: int) -> Any:
    """SGLang's arguments, resolved and published for one rank as its scheduler does."""
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import ServerArgs

    args = ServerArgs(model_path=directory, skip_tokenizer_init=True, load_format="dummy", **arguments)
    publish(args, role="scheduler", ranks=SpawnRanks(world_rank=rank, dp_rank=None, gpu_id=0))
    return args


def built(arguments: Any, rank: int) -> tuple[Any, Any, dict[str, Any]]:
    """The model of one rank with its configuration, and its bytes before and after SGLang processes the weights."""
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.distributed.bootstrap import init_layer_runtime
    from sglang.srt.model_loader.utils import set_default_torch_dtype

    ranks.become(arguments, rank)
    config = ModelConfig.from_server_args(arguments)
    init_layer_runtime(model_config=config)
    _choose_kernels()
    mode = OnMeta()
    with mode, set_default_torch_dtype(config.dtype):
        before = live_bytes()
        model = _created(config)
        created = live_bytes() - before
        failed = _process(model)
        loaded = live_bytes() - before
    answer = {"rank": rank, "created": created, "loaded": None if failed else loaded, "kernels": _kernels(model)}
    if failed:
        answer["failed"] = failed
    if mode.assumed:
        answer["values_assumed"] = dict(sorted(mode.assumed.items()))
    return model, config, answer


def _choose_kernels() -> None:
    """What SGLang's scheduler decides before it makes its worker (managers/scheduler.py `init_moe_gemm_config`)."""
    from sglang.srt.layers.moe import initialize_moe_config
    from sglang.srt.layers.quantization.fp4_utils import initialize_fp4_gemm_config
    from sglang.srt.layers.quantization.fp8_utils import initialize_fp8_gemm_config
    from sglang.srt.layers.quantization.unquant import initialize_bf16_gemm_config

    initialize_moe_config()
    initialize_fp8_gemm_config()
    initialize_fp4_gemm_config()
    initialize_bf16_gemm_config()


def _created(config: Any) -> Any:
    """A model on `meta`, before its weights are processed."""
    from sglang.srt.configs.load_config import LoadConfig

    load = LoadConfig(load_format="dummy")
    with torch.device("meta"):
        return loader._initialize_model(config, load, loader._get_quantization_config(config, load))


def _process(model: Any) -> dict[str, int]:
    """What SGLang's loader of dummy weights does after it fills them, module by module; what fails, counted."""
    failed: collections.Counter[str] = collections.Counter()

    def attempt(what: str, step: Any, *arguments: Any) -> None:
        try:
            step(*arguments)
        except Exception as error:
            text = f"{what}: {said(error)}"
            if not failed[text]:
                traceback.print_exc()
            failed[text] += 1

    attempt(type(model).__name__, loader.post_load_weights, model)
    for _, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if method is None or (hasattr(module, "is_weights_quantized") and module.is_weights_quantized()):
            continue
        attempt(type(method).__name__, method.process_weights_after_loading, module)
    return dict(sorted(failed.items()))


def _kernels(model: Any) -> dict[str, int]:
    """Layers by their class and quantisation method, counted."""
    found: collections.Counter[str] = collections.Counter()
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is not None:
            found[f"{type(module).__name__} {type(method).__name__}"] += 1
    return dict(sorted(found.items()))
