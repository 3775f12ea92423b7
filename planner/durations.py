"""Seconds to stage the weights and to start the server, from stated bandwidths."""

from __future__ import annotations

from planner.request import FitRequest

_ENGINE_START_SECONDS = {"vllm": 234.0, "llama.cpp": 15.0}
"""From weights read to the first answer: compilation, profiling, graphs, warm-up. vLLM: a public log of Kimi-K2.6 on 8
B300 takes 8.3 minutes from cold, 4.4 of them loading. llama.cpp compiles nothing."""


def download_seconds(request: FitRequest, weights: int) -> float:
    """Seconds to bring the weights to one volume."""
    return weights / request.staging_bytes_per_second


def load_seconds(request: FitRequest, weights: int) -> float:
    """Seconds from the server's start to its first answer. Every node is taken to read the whole checkpoint."""
    return weights / request.read_bytes_per_second + _ENGINE_START_SECONDS[request.engine]
