"""The bound from physics: a step takes no less time than its reads, its arithmetic or its traffic alone.

The three may overlap perfectly, at the peaks of the GPU's data sheet, without a launch or a synchronisation. A real
server is slower: `planner.speed.likely` says by how much, where there is evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.catalogue import GpuSpeed
from planner.speed.work import Work


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of what may overlap: reads of weights and cache, arithmetic, traffic."""

    weights: float
    """Bytes of weights over the bandwidth of the memory."""
    cache: float
    """Bytes of KV cache over the same bandwidth."""
    compute: float
    """Arithmetic at the peak."""
    link: float
    """Traffic between ranks over the link."""

    @property
    def seconds(self) -> float:
        """The longest: no less is possible."""
        return max(self.weights + self.cache, self.compute, self.link)


def decode_step(work: Work, gpu: GpuSpeed, users: int, context: float) -> Parts:
    """One token for each of so many users, each with so many tokens of context.

    Data-parallel ranks and pipeline stages have their own share of the users at any time, at least one user.
    """
    ranks = min(work.layout.dp, users)
    each = max(1.0, users / (work.layout.dp * work.layout.pp))
    compute = each * (work.dense_seconds + work.head_seconds) + each * ranks * work.expert_seconds
    return Parts(
        weights=work.weights_read(each * ranks) / gpu.memory_bytes_per_second,
        cache=each * work.cache.bytes_of(context) / gpu.memory_bytes_per_second,
        compute=compute,
        link=each * work.link_bytes / gpu.link_bytes_per_second,
    )


def prefill(work: Work, gpu: GpuSpeed, tokens: int, prompts: int = 1) -> Parts:
    """Prompts of so many tokens, at most one for each data-parallel rank, whose parts fill all pipeline stages.

    A token attends to those before it: on average to half of the prompt. Only the last one needs the output head.
    """
    layout, cache = work.layout, work.cache
    attended = tokens / 2 if cache.chosen is None else min(tokens / 2, cache.chosen)
    pairs = attended * work.pair_seconds + min(tokens / 2, cache.window) * work.window_pair_seconds
    compute = tokens * (work.dense_seconds + pairs) / layout.pcp + tokens * prompts * work.expert_seconds
    return Parts(
        weights=work.weights_read(tokens * prompts) / gpu.memory_bytes_per_second / layout.pp,
        cache=0.0,
        compute=compute / layout.pp,
        link=tokens * work.link_bytes / gpu.link_bytes_per_second / layout.pcp / layout.pp,
    )
