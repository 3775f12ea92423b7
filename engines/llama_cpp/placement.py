"""Where llama-server puts tensors: the extra arguments that say so, read as its own parser reads them
(github.com/ggml-org/llama.cpp common/arg.cpp)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from config.catalogue import engine_flags
from config.engine_name import EngineName
from engines.finding import Finding, rejected, unknown
from engines.request import FitRequest

DEFAULT_UBATCH = 512
"""Tokens per compute batch, llama-server's default for --ubatch-size."""

PLACEMENT_FLAGS = frozenset({"--tensor-split", "--n-cpu-moe", "--override-tensor", "--swa-full", "--ubatch-size"})
"""Flags that are counted."""

_EVERY_LAYER = 10**6
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


@dataclass(frozen=True, slots=True)
class Placement:
    """What stays in host memory, and how GPUs share the rest."""

    split: tuple[float, ...] = ()
    """Proportions of the GPUs, in order; a GPU without one gets nothing. Empty: equal."""
    host_expert_layers: int = 0
    """Layers, from the first, whose experts stay in host memory."""
    host_patterns: tuple[re.Pattern[str], ...] = ()
    """Tensors whose name one of them is found in stay in host memory."""
    whole_windows: bool = False
    """Keep the cache of a sliding window for the whole context."""
    ubatch: int = DEFAULT_UBATCH

    def in_host_memory(self, layer: int, tensor: str) -> bool:
        """Whether a tensor of a layer stays in host memory."""
        if layer < self.host_expert_layers and re.search(_EXPERTS, tensor):
            return True
        return any(pattern.search(tensor) for pattern in self.host_patterns)

    @property
    def uses_host(self) -> bool:
        """Whether anything stays in host memory."""
        return bool(self.host_expert_layers or self.host_patterns)


def placement_of(request: FitRequest) -> Placement:
    """The placement that a request asks for. What cannot be read is left out; `check_placement` reports it."""
    placement = Placement(host_expert_layers=_EVERY_LAYER if request.expert_offload else 0)
    for flag, value in _counted(request.extra_args):
        try:
            placement = _with(placement, flag, value)
        except ValueError:
            continue
    return placement


def check_placement(request: FitRequest) -> Iterator[Finding]:
    """Findings about values that llama-server would not read, and places that are not counted."""
    devices = request.gpus_per_node if request.gpu else 0
    for flag, value in _counted(request.extra_args):
        try:
            read = _with(Placement(), flag, value)
        except _UnknownPlaceError as fault:
            text = f"{flag} {value}: what {fault} takes is not counted."
            yield unknown("argument_not_counted", text, "Name CPU only, or measure it on the machine.")
        except ValueError as fault:
            yield rejected("argument_not_read", f"{flag} {value!r} is not valid: expected {fault}.", "Correct it.")
        else:
            if len(read.split) > devices > 0:
                text = f"{flag} {value} has {len(read.split)} proportions for {devices} GPUs."
                yield rejected("argument_not_read", text, "Give one for each GPU.")


class _UnknownPlaceError(ValueError):
    """A place other than host memory."""


def _with(placement: Placement, flag: str, value: str) -> Placement:
    """The placement with one argument more. Raises ValueError with what was expected."""
    match flag:
        case "--tensor-split":
            return replace(placement, split=_split(value))
        case "--n-cpu-moe":
            layers = max(placement.host_expert_layers, _whole(value))
            return replace(placement, host_expert_layers=layers)
        case "--override-tensor":
            return replace(placement, host_patterns=placement.host_patterns + _patterns(value))
        case "--ubatch-size":
            return replace(placement, ubatch=_whole(value))
        case _:
            return replace(placement, whole_windows=True)


def _split(value: str) -> tuple[float, ...]:
    expected = "numbers such as 3,1, at least one above 0"
    try:
        proportions = tuple(float(part) for part in re.split("[,/]+", value))
    except ValueError:
        raise ValueError(expected) from None
    if not all(0 <= part < float("inf") for part in proportions) or not any(proportions):
        raise ValueError(expected)
    return proportions


def _whole(value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) <= _EVERY_LAYER:
        raise ValueError("a whole number above 0")
    return int(value)


def _patterns(value: str) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for each in value.split(","):
        pattern, is_given, place = each.partition("=")
        if not is_given:
            raise ValueError("PATTERN=CPU")
        if place != "CPU":
            raise _UnknownPlaceError(place)
        try:
            patterns.append(re.compile(pattern))
        except re.error:
            raise ValueError("a regular expression before =CPU") from None
    return tuple(patterns)


def _counted(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The counted flags among the arguments, by their long name, each with its value; empty for a switch."""
    short = engine_flags(EngineName.LLAMA_CPP).short_forms
    for given, value in pairwise((*arguments, "")):
        name, is_joined, joined = given.partition("=")
        flag = short.get(name, name).replace("_", "-")
        if flag in PLACEMENT_FLAGS:
            yield flag, joined if is_joined else value
