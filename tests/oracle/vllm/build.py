"""One rank of one pair: its model built, its weights processed, and what it then holds."""

from __future__ import annotations

import collections
import traceback
from typing import Any

import torch
import vllm.model_executor.model_loader.utils as loader
import vllm.model_executor.models.registry as registry
from vllm.model_executor.models.utils import StageMissingLayer

from tests.oracle.engine.answers import said
from tests.oracle.engine.meta import OnMeta, live_bytes
from tests.oracle.vllm import drafts, ranks


def install() -> None:
    """Replaces what vLLM does in processes of its own, or to keep copies of what it loads."""
    ranks.install()
    registry._run_in_subprocess = lambda function: function()
    # It keeps tensors on `meta`, which here would count as the weights themselves.
    loader.record_metadata_for_reloading = lambda model: None
    import vllm.model_executor.kernels.linear.scaled_mm.deep_gemm  # noqa: F401 -- registers the operator

    torch.library.register_fake("vllm::fp8_gemm_nt_op", lambda *_: None)  # it writes into its argument
    drafts.install(_created)


def engine_config(directory: str, arguments: dict[str, Any], rank: int) -> Any:
    """vLLM's configuration for one rank, with the defaults of `vllm serve`."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    asked = EngineArgs(model=directory, skip_tokenizer_init=True, load_format="dummy", **arguments)
    config = asked.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    parallel = config.parallel_config
    parallel.data_parallel_rank, parallel.rank = divmod(rank, parallel.world_size)
    return config


def built(config: Any, rank: int) -> tuple[Any, dict[str, Any]]:
    """The model of one rank with what drafts for it, and its bytes before and after vLLM processes the weights.

    To be called within `set_current_vllm_config`.
    """
    from vllm.utils.torch_utils import set_default_torch_dtype
    from vllm.v1.worker.workspace import init_workspace_manager

    ranks.become(rank, config.parallel_config)
    init_workspace_manager(torch.device("meta"))
    mode, failed = OnMeta(), collections.Counter[str]()
    with mode, set_default_torch_dtype(config.model_config.dtype):
        speculator = drafts.speculator_of(config)
        before = live_bytes()
        model = _created(config, config.model_config)
        created = live_bytes() - before
        failed.update(_process(model, config.model_config))
        if speculator is not None:
            speculator.load_model(model)
            failed.update(_process(speculator.model, speculator.draft_model_config))
        adapters = _load_adapters(model, config)
        loaded = live_bytes() - before
    answer = {"rank": rank, "created": created, "loaded": None if failed else loaded, "kernels": _kernels(model)}
    if failed:
        answer["failed"] = dict(sorted(failed.items()))
    if mode.assumed:
        answer["values_assumed"] = dict(sorted(mode.assumed.items()))
    return (model, speculator, adapters), answer


def _load_adapters(model: Any, config: Any) -> Any | None:
    """The manager of LoRA adapters, which reserves their memory in the model. None: none are served."""
    from vllm.lora.worker_manager import LRUCacheWorkerLoRAManager

    if config.lora_config is None:
        return None
    manager = LRUCacheWorkerLoRAManager(config, torch.device("meta"), model.embedding_modules)
    manager.create_lora_manager(model, config)
    return manager


def _created(config: Any, model_config: Any, prefix: str = "") -> Any:
    """A model on `meta`, before its weights are processed."""
    with torch.device("meta"):
        model = loader.initialize_model(config, prefix=prefix, model_config=model_config)
    _empty_what_is_left_out(model)
    return model


def _empty_what_is_left_out(model: Any) -> None:
    """Empties the modules that vLLM itself leaves on `meta`: encoders that a stage or a setting does without."""
    left_out = [module for module in model.modules() if isinstance(module, StageMissingLayer)]
    for module in (layer.__dict__["module"] for layer in left_out):
        for tensor in (*module.parameters(), *module.buffers()) if module is not None else ():
            tensor.data = torch.empty(0, dtype=tensor.dtype, device="meta")


def _process(model: Any, model_config: Any) -> dict[str, int]:
    """`process_weights_after_loading` of vLLM's loader, module by module; what fails, counted."""
    failed: collections.Counter[str] = collections.Counter()
    loader.maybe_retie_word_embeddings(model, model_config)
    modules = [module for _, module in model.named_modules()]
    steps = [
        (module.quant_method, module)
        for module in modules
        if isinstance(getattr(module, "quant_method", None), loader.QuantizeMethodBase)
    ]
    steps += [(module, model_config.dtype) for module in modules if loader.is_deferred_attention_layer(module)]
    for step, argument in steps:
        try:
            step.process_weights_after_loading(argument)
        except Exception as error:
            what = f"{type(step).__name__}: {said(error)}"
            if not failed[what]:
                traceback.print_exc()
            failed[what] += 1
    if hasattr(model, "process_weights_after_loading"):
        model.process_weights_after_loading()
    return dict(sorted(failed.items()))


def _kernels(model: Any) -> dict[str, int]:
    """Layers by their class, quantisation method and the kernel it chose, counted."""
    found: collections.Counter[str] = collections.Counter()
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is None:
            continue
        chosen = next((str(value) for name, value in vars(method).items() if name.endswith("backend") and value), "")
        found[f"{type(module).__name__} {type(method).__name__} {chosen}".strip()] += 1
    return dict(sorted(found.items()))
