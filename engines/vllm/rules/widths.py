"""Rules for widths that tensor parallelism divides, against the quantisation blocks and groups."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from config.checkpoint.quantization import FP8_BLOCK
from engines.finding import Finding, rejected, unknown
from engines.rules.releases import Standing, by_release, release_rule
from engines.vllm.resolved_request import ResolvedRequest
from engines.vllm.rules.formats import FP8_CAPABILITY, capability_of

_SMALLEST_REFINED_BLOCK = 32
"""vLLM 0.33 refines block scales down to this, with Triton kernels only (fused_moe/oracle/fp8.py)."""


def check_widths(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about experts and networks whose divided width breaks a block or group."""
    yield from _expert_width(resolved)
    yield from _linear_width(resolved)


def _expert_width(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Routed experts that tensor parallelism cuts to a width that their blocks or groups do not divide."""
    experts, tp = resolved.model.shape.experts, resolved.layout.tp
    if experts is None or resolved.layout.ep > 1:
        return
    cut = f"its experts of {experts.width}, cut into {tp}, are {experts.width / tp:g} wide"
    scheme = resolved.model.expert_scheme
    if scheme is FP8_BLOCK and (experts.width / tp) % 128:
        rule = release_rule("fp8_block_experts", resolved.version)
        message = f"{resolved.model.name}: {cut}, which is not a multiple of the FP8 block of 128. {rule.range_text}."
        refined = gcd(128, experts.width // tp, resolved.model.shape.hidden)
        if refined < _SMALLEST_REFINED_BLOCK:
            yield rejected("expert_width_not_in_blocks", message)
        elif rule.standing is Standing.WORKS and resolved.below(FP8_CAPABILITY):
            yield unknown(
                "expert_width_not_in_blocks",
                f"{resolved.model.name}: {cut}. Only Triton kernels, which need FP8 arithmetic, support finer blocks; "
                f"{capability_of(resolved)}, and whether weight-only kernels support that width is not known.",
                "Use expert parallelism, which does not split experts.",
            )
        else:
            yield from by_release(
                rule,
                "expert_width_not_in_blocks",
                message,
                f"{resolved.model.name}: {cut}, which is not a multiple of the FP8 block of 128: vLLM refines the "
                f"scales to blocks of {refined}, with Triton kernels only, or pads. Expert parallelism avoids it.",
            )
    if scheme.name.startswith("int4") and (experts.width / tp) % scheme.group:
        rule = release_rule("int4_group_experts", resolved.version)
        yield from by_release(
            rule,
            "expert_width_not_in_groups",
            f"{resolved.model.name}: {cut}, which is not a multiple of the group of {scheme.group}. {rule.range_text}.",
            "",
        )


def _linear_width(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Networks outside the routed experts, which stay tensor-parallel under expert parallelism too."""
    shape, tp = resolved.model.shape, resolved.layout.tp
    networks = (
        [("shared expert", shape.experts.shared_width, resolved.model.shared_expert_scheme)] if shape.experts else []
    )
    if shape.experts is None or shape.experts.dense_layers:
        networks.append(("dense network", shape.dense_width, resolved.model.dense_scheme))
    for what, width, scheme in networks:
        if scheme is FP8_BLOCK and (width / tp) % 128:
            rule = release_rule("fp8_block_linear", resolved.version)
            yield from by_release(
                rule,
                "linear_width_not_in_blocks",
                f"{resolved.model.name}: its {what} of {width}, cut into {tp}, is {width / tp:g} wide, which is not a "
                f"multiple of the FP8 block of 128. Expert parallelism does not help, since it stays tensor-parallel. "
                f"{rule.range_text}.",
                "",
            )
        elif scheme.name.startswith("int") and scheme.group and (width / tp) % scheme.group:
            yield rejected(
                "linear_width_not_in_groups",
                f"{resolved.model.name}: its {what} of {width}, cut into {tp}, is {width / tp:g} wide, which is not a "
                f"multiple of the group of {scheme.group} weights that share a scale (vLLM 0.33.0, marlin_utils.py).",
            )
