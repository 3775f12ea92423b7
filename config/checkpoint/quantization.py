"""Which modules of a checkpoint are quantised, and what a weight costs there.

The checkpoint's own `quantization_config` decides: its method gives the scheme, its ignore list the modules that keep
their 16 bits. A method that is not known is said, never approximated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from math import ceil
from typing import Any

_PREFIXES = re.compile(r"^(model\.language_model\.|language_model\.model\.|language_model\.)")


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a weight matrix is stored."""

    name: str
    bits: int
    group: int = 0
    """Weights of a row that share a scale; 0: no such groups."""
    block: int = 0
    """Side of the square blocks that share a scale; 0: no such blocks."""
    scale_bytes: float = 0.0
    """Bytes per scale, zero point included."""

    def bytes_of(self, rows: int, columns: int) -> int:
        """Bytes of a matrix of `rows` outputs and `columns` inputs, scales included."""
        stored = rows * columns * self.bits // 8
        if self.block:
            return stored + ceil(rows / self.block) * ceil(columns / self.block) * int(self.scale_bytes)
        if self.group:
            return stored + ceil(rows * (columns / self.group) * self.scale_bytes)
        return stored + ceil(rows * self.scale_bytes)


BF16 = Scheme("bf16", 16)
FP32 = Scheme("fp32", 32)
FP8_BLOCK = Scheme("fp8 128x128", 8, block=128, scale_bytes=4)
FP8 = Scheme("fp8", 8)
FP8_CHANNEL = Scheme("fp8 per channel", 8, scale_bytes=4)
INT8 = Scheme("int8 per channel", 8, scale_bytes=4)
NVFP4 = Scheme("nvfp4 g16", 4, group=16, scale_bytes=1)
MXFP4 = Scheme("mxfp4 g32", 4, group=32, scale_bytes=1)


_ALGORITHMS = {"NVFP4": NVFP4, "W4A16_NVFP4": NVFP4, "FP8": FP8}
"""ModelOpt's names."""

_EXPERTS = re.compile(r".*\.experts\.")

_INTEGER_BITS = {"gptq": (4, 8), "awq": (4,)}
"""Bits of the methods that store a zero point, as wide as a weight, beside each scale."""


def _int4(group: int, *, zero_points: bool) -> Scheme:
    return Scheme(f"int4 g{group}", 4, group=group, scale_bytes=2.5 if zero_points else 2)


@dataclass(frozen=True, slots=True)
class Quantization:
    """The quantisation of one checkpoint."""

    method: str
    """As `--quantization` names it; empty: none."""
    schemes: tuple[tuple[re.Pattern[str] | None, Scheme], ...] = ()
    """Scheme by module name, in order; `None` matches any."""
    ignored: re.Pattern[str] | None = None
    kv_cache_fp8: bool = False
    """The checkpoint declares an fp8 KV cache."""
    unknown: str | None = None

    def scheme(self, module: str) -> Scheme:
        """The scheme of a linear layer, by its name in the checkpoint."""
        if self.ignored and self.ignored.match(module):
            return BF16
        for pattern, scheme in self.schemes:
            if pattern is None or pattern.match(module):
                return scheme
        return BF16


UNQUANTIZED = Quantization(method="")


def read_quantization(config: Mapping[str, Any] | None) -> Quantization:
    """The quantisation that a `quantization_config` describes."""
    if not config:
        return UNQUANTIZED
    method = str(config.get("quant_method", ""))
    ignored = _any_of(
        [
            *(config.get("ignore") or ()),
            *(config.get("modules_to_not_convert") or ()),
            *(config.get("ignored_layers") or ()),
            *(config.get("exclude_modules") or ()),
        ]
    )
    schemes, unknown = _schemes(method, config)
    return Quantization(method, schemes, ignored, _declares_fp8_cache(config), unknown)


def with_expert_type(
    quantization: Quantization, config: Mapping[str, Any], declared: Mapping[str, Any]
) -> Quantization:
    """DeepSeek V4's quantisation: experts as `expert_dtype` says, the rest in blocks of FP8
    (`vllm/models/deepseek_v4/quant_config.py`, 0.33.0)."""
    if quantization.method != "fp8":
        return quantization
    algorithm = declared.get("moe_quant_algo")
    types = {"fp4": NVFP4 if algorithm == "NVFP4" else MXFP4, "fp8": FP8_BLOCK}
    experts = types.get(str(config.get("expert_dtype", "fp4")))
    if experts is None or algorithm not in (None, "NVFP4"):
        return replace(quantization, unknown=f"experts of the type {config.get('expert_dtype')!r} and {algorithm!r}")
    return replace(quantization, schemes=((_EXPERTS, experts), (None, FP8_BLOCK)), ignored=None)


Schemes = tuple[tuple[re.Pattern[str] | None, Scheme], ...]


def _schemes(method: str, config: Mapping[str, Any]) -> tuple[Schemes, str | None]:
    if method == "fp8":
        block = config.get("weight_block_size")
        if block and list(block) != [128, 128]:
            return (), f"fp8 blocks of {block}"
        return ((None, FP8_BLOCK if block else FP8),), None
    if method in ("gptq", "awq"):
        bits, group = config.get("bits"), config.get("group_size")
        if bits not in _INTEGER_BITS[method] or not isinstance(group, int) or group < 1:
            return (), f"{method} with {bits} bits in groups of {group}"
        return ((None, Scheme(f"int{bits} g{group}", bits, group=group, scale_bytes=2 + bits / 8)),), None
    if method == "mxfp4":
        # vLLM takes the experts alone for quantised (quantization/mxfp4.py, 0.33.0).
        return ((_EXPERTS, MXFP4),), None
    if method in ("compressed-tensors", "modelopt", "modelopt_fp4"):
        return _grouped(config)
    return (), f"the method {method!r}"


def _grouped(config: Mapping[str, Any]) -> tuple[Schemes, str | None]:
    """Schemes of a configuration that lists groups of modules."""
    groups = config.get("config_groups") or {}
    if not groups and config.get("quant_algo") == "MIXED_PRECISION" and config.get("quantized_layers"):
        return _by_module(config["quantized_layers"])
    if not groups:
        algorithm = _ALGORITHMS.get(str(config.get("quant_algo")))
        return (((None, algorithm),), None) if algorithm else ((), f"the algorithm {config.get('quant_algo')!r}")
    schemes: list[tuple[re.Pattern[str] | None, Scheme]] = []
    for group in groups.values():
        scheme = _weights_scheme(group.get("weights") or {}, str(group.get("format") or config.get("format") or ""))
        if scheme is None:
            return (), f"the weights {group.get('weights')}"
        targets = [target for target in group.get("targets") or () if target != "Linear"]
        schemes.append((_any_of(targets), scheme))
    return tuple(schemes), None


def _by_module(modules: Mapping[str, Mapping[str, Any]]) -> tuple[Schemes, str | None]:
    """Schemes of a configuration that lists every module, each of a kind of its own. Experts are alike in a layer."""
    names: dict[str, set[str]] = {}
    for module, declared in modules.items():
        first = _PREFIXES.sub("model.", re.sub(r"\.experts\.\d+\.", ".experts.0.", module))
        names.setdefault(str(declared.get("quant_algo")), set()).add(first)
    if odd := sorted({*names} - {*_ALGORITHMS}):
        return (), f"the algorithms {', '.join(odd)}"
    exact = {kind: "|".join(map(re.escape, sorted(of))) for kind, of in names.items()}
    return tuple((re.compile(f"(?:{of})$"), _ALGORITHMS[kind]) for kind, of in exact.items()), None


def _weights_scheme(weights: Mapping[str, Any], stored_as: str) -> Scheme | None:
    bits, kind, group = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if (bits, kind) == (4, "int") and group:
        return _int4(group, zero_points=not weights.get("symmetric", True))
    if (bits, kind) == (4, "float"):
        return {16: NVFP4, 32: MXFP4 if "mxfp4" in stored_as else None}.get(group or 0)
    if (bits, kind) == (8, "int"):
        return INT8
    if (bits, kind, weights.get("strategy")) == (8, "float", "block"):
        return FP8_BLOCK if weights.get("block_structure") == [128, 128] else None
    if (bits, kind) == (8, "float"):
        return FP8_CHANNEL if weights.get("strategy") == "channel" else FP8
    return None


def _declares_fp8_cache(config: Mapping[str, Any]) -> bool:
    scheme = config.get("kv_cache_scheme")
    if not isinstance(scheme, Mapping):
        scheme = {}
    return config.get("kv_cache_quant_algo") == "FP8" or (scheme.get("num_bits"), scheme.get("type")) == (8, "float")


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One expression for a list of names, `re:` expressions and shell patterns; `None` for an empty list."""
    expressions = [_expression(pattern) for pattern in patterns]
    return re.compile("|".join(expressions)) if expressions else None


def _expression(pattern: str) -> str:
    if pattern.startswith("re:"):
        return f"(?:{pattern[3:]})"
    name = _PREFIXES.sub("model." if ".layers." in pattern else "", pattern)
    if "*" in name:
        return translate(name)
    # A plain name stands for itself wherever it occurs as whole parts of a dotted name.
    return rf"(?:.*\.)?{re.escape(name)}(?:\..*)?$"
