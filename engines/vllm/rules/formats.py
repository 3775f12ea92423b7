"""Rules for weight and cache formats on GPUs and releases.

Format and memory are checked independently.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from config.catalogue import (
    engine_flags,
)
from config.checkpoint.attention import CompressedAttention, LatentAttention
from config.engine_name import EngineName
from engines.finding import Finding, rejected, unknown, warning
from engines.rules.releases import by_release, release_rule
from engines.vllm.defaults import vllm_defaults
from engines.vllm.memory.attention_backend import SPARSE_ON_12, cache_types
from engines.vllm.memory.kv_cache import ELEMENT_BYTES, LATENT_ONLY, is_fp8
from engines.vllm.release_facts import facts_of
from engines.vllm.resolved_request import ResolvedRequest

FP8_CAPABILITY = (8, 9)
_FP4_CAPABILITY = (10, 0)
_WEIGHT_ONLY_CAPABILITY = (7, 5)


def check_formats(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about quantisation, cache type and attention backend."""
    yield from _asked_quantization(resolved)
    yield from _attention(resolved)
    yield from _cache(resolved)
    yield from _weights(resolved)


def needs_weight_only_experts(resolved: ResolvedRequest) -> bool:
    """Whether the experts must be told to use weight-only kernels: block FP8 on a GPU without FP8."""
    return _has_fp8_experts(resolved) and resolved.below(FP8_CAPABILITY)


def _asked_quantization(resolved: ResolvedRequest) -> Iterator[Finding]:
    asked, declared = resolved.request.quantization, resolved.model.quantization.method
    if asked is None or asked == declared:
        return
    names = vllm_defaults().quantization_names
    if declared and asked not in names.get(declared, ()):
        yield rejected(
            "quantization_contradicts_checkpoint",
            f"quantization {asked!r} contradicts {resolved.model.name}, whose config.json declares {declared!r}: the "
            "engine applies one method to a checkpoint and cannot add another at run time. A mixed checkpoint must "
            "be quantized beforehand.",
            "Remove quantization; the engine reads it from the checkpoint.",
        )
    elif not declared and asked not in names["fp8"]:
        yield unknown(
            "quantization_not_known",
            f"quantization {asked!r} of an unquantized checkpoint: its effect on the size of the weights is not known.",
            "Name a checkpoint in that format.",
        )


def _attention(resolved: ResolvedRequest) -> Iterator[Finding]:
    if resolved.backend is None and isinstance(resolved.model.shape.attention, CompressedAttention):
        yield unknown(
            "compressed_attention_on_this_gpu",
            f"{resolved.model.name} has compressed attention, whose cache was compared with vLLM on compute capability "
            f"9.0 and 10.x only; {capability_of(resolved)}.",
            "Measure it on the machine itself.",
        )
    elif resolved.backend is None and resolved.capability is None:
        yield unknown(
            "sparse_attention_on_amd",
            f"{resolved.model.name} has sparse latent attention, which vLLM serves on AMD GPUs with AITER's kernels "
            "only (VLLM_ROCM_USE_AITER=1); what they take is not known.",
            "Measure it on the machine itself.",
        )
    elif resolved.backend is None or _lacks_backend(resolved):
        yield rejected(
            "no_attention_backend",
            f"{resolved.model.name} has sparse latent attention, for which vLLM {resolved.version} has no backend; "
            f"{capability_of(resolved)}: 9.0 and 10.x have one, and 12.x in newer releases. The format of the weights "
            "makes no difference.",
        )


def _lacks_backend(resolved: ResolvedRequest) -> bool:
    """Whether the release is older than the backend for sparse attention on compute capability 12.x."""
    backend = resolved.backend
    return (
        backend is not None
        and backend.name == SPARSE_ON_12
        and SPARSE_ON_12 not in facts_of(resolved.version).attention_backends
    )


def _cache(resolved: ResolvedRequest) -> Iterator[Finding]:
    dtype, known = resolved.kv_cache_dtype, engine_flags(EngineName.VLLM).values["--kv-cache-dtype"]
    if dtype not in known:
        close = get_close_matches(dtype, known, n=3) or known
        yield rejected(
            "cache_type_not_known",
            f"kv_cache_dtype {dtype!r} is not one of vLLM's: expected {', '.join(close)}.",
            "Correct it.",
        )
        return
    taken = cache_types(resolved.model.shape, resolved.capability)
    if taken and dtype not in taken:
        yield rejected(
            "cache_type_not_taken",
            f"kv_cache_dtype {dtype!r}: no attention backend for {resolved.model.name} takes it, and "
            f"{capability_of(resolved)}. Expected {', '.join(taken)}.",
            "Correct it, or remove kv_cache_dtype.",
        )
        return
    latent = isinstance(resolved.model.shape.attention, LatentAttention)
    if dtype not in ELEMENT_BYTES and not (latent and dtype in LATENT_ONLY):
        message = f"The size of a token in kv_cache_dtype {dtype!r} with this attention is not known."
        yield unknown("cache_type_without_formula", message, "Use fp8, or remove kv_cache_dtype.")
    elif is_fp8(dtype) and resolved.below(FP8_CAPABILITY):
        yield unknown(
            "cache_type_on_old_gpu",
            f"Whether the attention backend supports an fp8 cache is not known: {capability_of(resolved)}, and fp8 "
            "begins with 8.9 (github.com/vllm-project/vllm/issues/26431).",
            "Remove kv_cache_dtype.",
        )


def _weights(resolved: ResolvedRequest) -> Iterator[Finding]:
    if resolved.capability is None:
        yield from _weights_on_amd(resolved)
        return
    name, gpu = resolved.model.name, capability_of(resolved)
    if resolved.model.is_stored_as("nvfp4") and resolved.below(_FP4_CAPABILITY):
        rule = release_rule("nvfp4_before_10", resolved.version)
        yield from by_release(
            rule,
            "nvfp4_without_fp4",
            f"{name} is NVFP4 and {gpu}, without FP4 arithmetic. {rule.range_text}.",
            f"{name} is NVFP4 and {gpu}: vLLM runs it weight-only (Marlin). This saves memory but no "
            "time, because FP4 arithmetic needs 10.0.",
        )
    if _has_fp8_experts(resolved) and resolved.below(FP8_CAPABILITY):
        rule = release_rule("fp8_experts_before_8.9", resolved.version)
        yield from by_release(
            rule,
            "fp8_experts_without_fp8",
            f"{name} has FP8 experts and {gpu}: their kernels need 8.9. {rule.range_text}.",
            f"{name} has FP8 experts and {gpu}: they run weight-only (--moe-backend marlin). This "
            "saves memory but no time.",
        )
    elif resolved.model.is_stored_as("fp8") and resolved.below(FP8_CAPABILITY):
        yield warning(
            "fp8_weight_only",
            f"{name} is FP8 and {gpu}: it runs weight-only. This saves memory but no time.",
        )
    if resolved.below(_WEIGHT_ONLY_CAPABILITY):
        yield rejected("gpu_too_old", f"{gpu}: vLLM's kernels need 7.5.", "Use a newer GPU.")


def _weights_on_amd(resolved: ResolvedRequest) -> Iterator[Finding]:
    """What vLLM does to formats that AMD's GPUs do not compute with (fused_moe/oracle/nvfp4.py, 0.33.0)."""
    if resolved.model.is_stored_as("nvfp4"):
        yield unknown(
            "nvfp4_on_amd",
            f"{resolved.model.name} is NVFP4 and {capability_of(resolved)}: vLLM emulates it there, and what that "
            "takes is not known.",
            "Use an FP8, INT4 or MXFP4 checkpoint.",
        )


def _has_fp8_experts(resolved: ResolvedRequest) -> bool:
    return resolved.model.shape.experts is not None and resolved.model.expert_scheme.name.startswith("fp8")


def capability_of(resolved: ResolvedRequest) -> str:
    """The GPU's compute capability, or its architecture, for messages."""
    if resolved.capability is None:
        return f"{resolved.gpu.title} is {resolved.gpu.gfx}"
    major, minor = resolved.capability
    return f"{resolved.gpu.title} has compute capability {major}.{minor}"
