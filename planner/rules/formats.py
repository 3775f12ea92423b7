"""Formats of weights and cache against GPUs, releases and tensor parallelism.

Format and memory are judged apart: a checkpoint may be refused for its size where its format would run.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from math import gcd

from config.catalogue import Gpu, engine_flags, engines
from planner.case import Case
from planner.finding import Finding, rejected, unknown, warning
from planner.kv_cache import ELEMENT_BYTES, LATENT_ONLY, is_fp8
from planner.rules.releases import ReleaseRule, Standing, release_rule
from planner.shape import LatentAttention

_FP8_CAPABILITY = (8, 9)
_FP4_CAPABILITY = (10, 0)
_WEIGHT_ONLY_CAPABILITY = (7, 5)
_SMALLEST_REFINED_BLOCK = 32
"""vLLM 0.33 refines block scales down to this, with Triton kernels only (fused_moe/oracle/fp8.py)."""


def check_formats(case: Case) -> Iterator[Finding]:
    """Findings about quantisation, cache type and attention backend."""
    yield from _asked_quantization(case)
    yield from _attention(case)
    yield from _cache(case)
    yield from _weights(case)
    yield from _expert_width(case)
    yield from _linear_width(case)


def needs_weight_only_experts(case: Case) -> bool:
    """Whether the experts must be told to use weight-only kernels: block FP8 on a GPU without FP8."""
    return _experts_stored_as(case, "fp8") and case.gpu.compute_capability < _FP8_CAPABILITY


def _asked_quantization(case: Case) -> Iterator[Finding]:
    asked, declared = case.request.quantization, case.subject.quantization.method
    if asked is None or asked == declared:
        return
    names: dict[str, list[str]] = engines()["vllm"]["quantization_names"]
    if declared and asked not in names.get(declared, []):
        yield rejected(
            "quantization_contradicts_checkpoint",
            f"quantization {asked!r} contradicts {case.subject.name}, whose config.json declares {declared!r}: the "
            "engine applies one method to a checkpoint and cannot put another on top of it while it runs. A mixed "
            "checkpoint has to be made beforehand.",
            "Leave quantization out; the engine reads it from the checkpoint.",
        )
    elif not declared and asked not in names["fp8"]:
        yield unknown(
            "quantization_not_known",
            f"quantization {asked!r} of an unquantised checkpoint: what it does to the weights is not known.",
            "Name a checkpoint in that format.",
        )


def _attention(case: Case) -> Iterator[Finding]:
    if case.backend is None:
        yield rejected(
            "no_attention_backend",
            f"{case.subject.name} has sparse latent attention, for which vLLM has backends on compute capability 9.0 "
            f"and 10.x only; {_capability(case.gpu)}. The reason is the attention, whatever the weights are stored in.",
        )


def _cache(case: Case) -> Iterator[Finding]:
    dtype, known = case.kv_cache_dtype, engine_flags("vllm")["values"]["--kv-cache-dtype"]
    if dtype not in known:
        close = get_close_matches(dtype, known, n=3) or known
        yield rejected(
            "cache_type_not_known",
            f"kv_cache_dtype {dtype!r} is not one of vLLM's: expected {', '.join(close)}.",
            "Correct it.",
        )
        return
    latent = isinstance(case.subject.shape.attention, LatentAttention)
    if dtype not in ELEMENT_BYTES and not (latent and dtype in LATENT_ONLY):
        message = f"What a token costs in kv_cache_dtype {dtype!r} under this attention is not known."
        yield unknown("cache_type_without_formula", message, "Use fp8, or leave kv_cache_dtype out.")
    elif is_fp8(dtype) and case.gpu.compute_capability < _FP8_CAPABILITY:
        yield unknown(
            "cache_type_on_old_gpu",
            f"Whether the attention backend takes an fp8 cache is not known: {_capability(case.gpu)}, and fp8 begins "
            "with 8.9 (github.com/vllm-project/vllm/issues/26431).",
            "Leave kv_cache_dtype out.",
        )


def _weights(case: Case) -> Iterator[Finding]:
    name, capability = case.subject.name, case.gpu.compute_capability
    if _stored_as(case, "nvfp4") and capability < _FP4_CAPABILITY:
        rule = release_rule("nvfp4_before_10", case.version)
        yield from _by_release(
            rule,
            "nvfp4_without_fp4",
            f"{name} is NVFP4 and {_capability(case.gpu)}, without FP4 arithmetic. {rule.range_text}.",
            f"{name} is NVFP4 and {_capability(case.gpu)}: vLLM runs it weight-only (Marlin). Memory is saved, and no "
            "time: there is no FP4 arithmetic before 10.0.",
        )
    if _experts_stored_as(case, "fp8") and capability < _FP8_CAPABILITY:
        rule = release_rule("fp8_experts_before_8.9", case.version)
        yield from _by_release(
            rule,
            "fp8_experts_without_fp8",
            f"{name} has FP8 experts and {_capability(case.gpu)}: their kernels need 8.9. {rule.range_text}.",
            f"{name} has FP8 experts and {_capability(case.gpu)}: they run weight-only (--moe-backend marlin). Memory "
            "is saved, and no time.",
        )
    elif _stored_as(case, "fp8") and capability < _FP8_CAPABILITY:
        yield warning(
            "fp8_weight_only",
            f"{name} is FP8 and {_capability(case.gpu)}: it runs weight-only. Memory is saved, and no time.",
        )
    if capability < _WEIGHT_ONLY_CAPABILITY:
        yield rejected("gpu_too_old", f"{_capability(case.gpu)}: vLLM's kernels begin with 7.5.", "Use a newer GPU.")


def _expert_width(case: Case) -> Iterator[Finding]:
    """Routed experts that tensor parallelism cuts to a width that their blocks or groups do not divide."""
    experts, tp = case.subject.shape.experts, case.layout.tp
    if experts is None or case.layout.ep > 1:
        return
    cut = f"its experts of {experts.width}, cut into {tp}, are {experts.width / tp:g} wide"
    if _experts_stored_as(case, "fp8 128x128") and (experts.width / tp) % 128:
        rule = release_rule("fp8_block_experts", case.version)
        message = f"{case.subject.name}: {cut}, which is not a multiple of the FP8 block of 128. {rule.range_text}."
        refined = gcd(128, experts.width // tp, case.subject.shape.hidden)
        if refined < _SMALLEST_REFINED_BLOCK:
            yield rejected("expert_width_not_in_blocks", message)
        elif rule.standing is Standing.WORKS and case.gpu.compute_capability < _FP8_CAPABILITY:
            yield unknown(
                "expert_width_not_in_blocks",
                f"{case.subject.name}: {cut}. Finer blocks are for Triton kernels, which need FP8 arithmetic; "
                f"{_capability(case.gpu)}, and whether weight-only kernels take that width is not known.",
                "Use expert parallelism, which leaves the experts whole.",
            )
        else:
            yield from _by_release(
                rule,
                "expert_width_not_in_blocks",
                message,
                f"{case.subject.name}: {cut}, which is not a multiple of the FP8 block of 128: vLLM refines the scales "
                f"to blocks of {refined}, with Triton kernels only, or pads. Expert parallelism avoids it.",
            )
    group = _integer_group(case)
    if group and (experts.width / tp) % group:
        rule = release_rule("int4_group_experts", case.version)
        yield from _by_release(
            rule,
            "expert_width_not_in_groups",
            f"{case.subject.name}: {cut}, which is not a multiple of the group of {group}. {rule.range_text}.",
            "",
        )


def _linear_width(case: Case) -> Iterator[Finding]:
    """Networks outside the routed experts, which stay tensor-parallel under expert parallelism too."""
    shape, tp = case.subject.shape, case.layout.tp
    shared = shape.experts.shared_width if shape.experts else 0
    widths = {"shared_experts": ("shared expert", shared), "dense_mlp": ("dense network", shape.dense_width)}
    stored = {group.group for group in case.subject.groups if group.dtype == "fp8 128x128"}
    for group, (what, width) in widths.items():
        if group in stored and width and (width / tp) % 128:
            rule = release_rule("fp8_block_linear", case.version)
            yield from _by_release(
                rule,
                "linear_width_not_in_blocks",
                f"{case.subject.name}: its {what} of {width}, cut into {tp}, is {width / tp:g} wide, which is not a "
                f"multiple of the FP8 block of 128. Expert parallelism does not help, since it stays tensor-parallel. "
                f"{rule.range_text}.",
                "",
            )


def _by_release(rule: ReleaseRule, code: str, message: str, accepted: str) -> Iterator[Finding]:
    """Rejected where the release fails, a warning where it works, unknown between."""
    if rule.standing is Standing.FAILS:
        yield rejected(code, message)
    elif rule.standing is Standing.UNDETERMINED:
        yield unknown(code, message, "Use a release that is known to work.")
    elif accepted:
        yield warning(code, accepted)


def _stored_as(case: Case, dtype: str) -> bool:
    return any(group.dtype.startswith(dtype) for group in case.subject.groups)


def _experts_stored_as(case: Case, dtype: str) -> bool:
    return any(group.group == "routed_experts" and group.dtype.startswith(dtype) for group in case.subject.groups)


def _integer_group(case: Case) -> int:
    """Weights that share a scale in integer experts; 0: they are no integers."""
    for group in case.subject.groups:
        if group.group == "routed_experts" and group.dtype.startswith("int4 g"):
            return int(group.dtype.removeprefix("int4 g"))
    return 0


def _capability(gpu: Gpu) -> str:
    major, minor = gpu.compute_capability
    return f"{gpu.title} has compute capability {major}.{minor}"
