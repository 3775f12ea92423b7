"""Measures 10,000 plans: CPU time of each, and the process's memory.

`make bench-planner`. Also prints the time from a cold start, which each `pulumi preview` takes once.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice, product

from config.checkpoint.model_spec import find_model
from planner import FitRequest, fit
from planner.fit import plan_only
from planner.speed import with_speed

PLANS = 10_000
LIMIT_MILLISECONDS = 50.0
"""CPU time limit of a plan, so that it does not slow down a preview."""

_MODELS = ("kimi-k2.5", "kimi-k2.5-nvfp4", "glm-5-fp8", "qwen3.5-397b-a17b", "minimax-m2.5", "llama-3.1-8b")
_GPUS = ("h100", "h200", "b200", "a100-80gb")
_SIZES = (1, 2, 4, 8)
_CONTEXTS = (4096, 32_768, 131_072)


def requests() -> Iterator[FitRequest]:
    """Yields requests of every combination in turn, without end."""
    for model, gpu, count, context in cycle(product(_MODELS, _GPUS, _SIZES, _CONTEXTS)):
        yield FitRequest(model=model, gpu=gpu, gpus_per_node=count, max_model_len=context)


def cold_start_milliseconds() -> float:
    """Returns the time of the first plan in a new process, minus the start of the interpreter."""

    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    code = "import planner; planner.fit(planner.FitRequest(model='kimi-k2.5', gpu='h200'))"
    return 1000 * min(seconds(code) - seconds("pass") for _ in range(5))


def measure_speed(planned: int) -> list[float]:
    """Returns the milliseconds that the speed of each plan takes; rejected plans have none."""
    times: list[float] = []
    for request in islice(requests(), planned):
        plan, model = plan_only(request), find_model(request.model)
        start = time.process_time()
        if with_speed(plan, request, model).speed is not None:
            times.append(1000 * (time.process_time() - start))
    return times


def measure(planned: int) -> list[float]:
    """Returns the milliseconds of each plan, without suggestions and speed."""
    times = []
    for request in islice(requests(), planned):
        start = time.process_time()
        plan_only(request)
        times.append(1000 * (time.process_time() - start))
    return times


def measure_rejected(planned: int) -> list[float]:
    """Returns the milliseconds of each rejected plan, with its suggestions."""
    times: list[float] = []
    for request in requests():
        start = time.process_time()
        plan = fit(request)
        if plan.verdict == "rejected":
            times.append(1000 * (time.process_time() - start))
        if len(times) == planned:
            return times
    return times


def main() -> int:
    """Prints the figures. Returns 1 if a plan exceeds its limit."""
    plan_only(next(requests()))
    times, rejected = measure(PLANS), measure_rejected(300)
    slow, slow_rejected = statistics.quantiles(times, n=1000)[-1], statistics.quantiles(rejected, n=100)[-1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{PLANS:,} plans: median {statistics.median(times):.3f} ms, 99.9% below {slow:.2f} ms")
    print(f"the speed of an accepted plan: median {statistics.median(measure_speed(1000)):.3f} ms more")
    print(f"rejected, with suggestions: median {statistics.median(rejected):.1f} ms, 99% below {slow_rejected:.1f} ms")
    print(f"first plan of a process: {cold_start_milliseconds():.0f} ms more than an empty interpreter")
    print(f"peak memory of this process: {peak:.0f} MiB")
    return 0 if max(slow, slow_rejected) < LIMIT_MILLISECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
