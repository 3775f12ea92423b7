"""The speed of a plan in two lines: the bound, and the likely range or why there is none."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import GpuSpeed, find_gpu
from config.checkpoint.model_spec import ModelSpec
from engines.plan import Plan
from engines.request import FitRequest
from engines.speed import Speed, SpeedAt, Times
from planner.speed import work_of_plan
from planner.speed.bound import Parts, decode_step, prefill
from planner.speed.likely import Features, fitted, tpot_parts
from planner.speed.plan_speed import features_of

NOT_KNOWN = "the truth may be many times slower than the bound"


def speed_facts(speed: Speed | None) -> Iterator[tuple[str, str]]:
    """A label and a line each. None: no speed is known."""
    if speed is None:
        return
    yield "bound", _bound(speed)
    yield "likely", _likely(speed)


def _bound(speed: Speed) -> str:
    work = speed.workload
    one, most = speed.one, speed.most
    parts = [
        f"at best, per server, with {work.prompt_tokens:,} tokens in and {work.answer_tokens:,} out: 1 user "
        f"{digits(1 / one.bound.tpot)} tokens/s, first token after {seconds(one.bound.ttft)}"
    ]
    if most.users > 1:
        each, together = 1 / most.bound.tpot, most.tokens_per_second(most.bound)
        parts.append(f"{users(most)} {digits(each)} tokens/s each, {digits(together / speed.gpus)} per GPU")
    if speed.tokens_per_step > 1:
        parts.append("if every drafted token is accepted")
    hours = speed.least_gpu_hours
    no_price = " (nodes.usd_per_gpu_hour gives dollars)" if speed.usd_per_gpu_hour is None else ""
    parts.append(f"a million tokens {price(speed, hours.prompts)} in, {price(speed, hours.answers)} out{no_price}")
    return "; ".join(parts)


def _likely(speed: Speed) -> str:
    one, most = speed.one, speed.most_likely
    if one.likely is None or most is None or most.likely is None:
        return f"not known, {speed.why_no_range}: {NOT_KNOWN}"
    fast, slow = one.likely
    parts = [f"1 user {_between(1 / slow.tpot, 1 / fast.tpot)} tokens/s, first token after {_in_seconds(one.likely)}"]
    fast, slow = most.likely
    if most.users > 1:
        each = _between(1 / slow.tpot, 1 / fast.tpot)
        per_gpu = _between(*(most.tokens_per_second(end) / speed.gpus for end in (slow, fast)))
        first = _in_seconds(most.likely)
        parts.append(f"{users(most)} {each} tokens/s each, {per_gpu} per GPU, first token after {first}")
    hours = [speed.gpu_hours_of_answers(most, each) for each in (fast, slow)]
    rate, unit = (1.0, "GPU h") if speed.usd_per_gpu_hour is None else (speed.usd_per_gpu_hour, "$")
    return "; ".join([*parts, f"a million tokens out {_between(rate * hours[0], rate * hours[1])} {unit}"])


def speed_of_row(at: SpeedAt) -> str:
    """The speed for a number of users in a few words: the likely range, else the bound."""
    if at.likely is None:
        return f"{users(at)}: bound {digits(1 / at.bound.tpot)} tokens/s, {seconds(at.bound.ttft)} to the first"
    fast, slow = at.likely
    each = _between(1 / slow.tpot, 1 / fast.tpot)
    return f"{users(at)}: likely {each} tokens/s, {_in_seconds(at.likely)} to the first"


def _between(low: float, high: float) -> str:
    """Two ends of a range."""
    return f"{digits(low)} to {digits(high)}"


def _in_seconds(ends: tuple[Times, Times]) -> str:
    fast, slow = ends
    return f"{_between(fast.ttft, slow.ttft)} s"


def price(speed: Speed, gpu_hours: float) -> str:
    """US dollars, or GPU hours where no price is known."""
    usd = speed.usd(gpu_hours)
    return f"{digits(gpu_hours)} GPU h" if usd is None else f"{digits(usd)} $"


def users(at: SpeedAt) -> str:
    """How many users."""
    return f"{at.users:,} user{'s' if at.users > 1 else ''}"


def seconds(value: float) -> str:
    """A time such as `0.09 s` or `12 s`."""
    return f"{digits(value)} s"


def digits(value: float) -> str:
    """Two digits that count, and no exponent: `0.089`, `43`, `3,400`."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def explain_speed(request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
    """The arithmetic of the bound, and of the likely range where there is one."""
    found = work_of_plan(plan, request, model)
    if plan.speed is None or found is None:
        return
    (work, gpu), workload = found, plan.speed.workload
    yield (
        f"speed: each request has {workload.prompt_tokens:,} tokens in and {workload.answer_tokens:,} out; "
        f"memory {gpu.memory_bytes_per_second / 1e12:g} TB/s, link {gpu.link_bytes_per_second / 1e9:g} GB/s in one "
        f"direction  [config/data/gpus.json]"
    )
    if plan.speed.tokens_per_step > 1:
        yield f"a step yields {plan.speed.tokens_per_step} tokens of an answer, if every drafted token is accepted"
    for at in plan.speed.at:
        yield f"bound of a step, {users(at)} = {_parts(decode_step(work, gpu, at.users, workload.middle), gpu)}"
    yield f"bound of the first token = {_parts(prefill(work, gpu, workload.prompt_tokens), gpu)}"
    gpu_of_request = find_gpu(request.gpu or "")
    for at in plan.speed.at:
        if at.likely is not None:
            yield _floor(at, features_of(model, work, gpu_of_request, gpu, workload, at.users))
    yield f"likely: {_likely(plan.speed)}"


def _floor(at: SpeedAt, of: Features) -> str:
    """The middle of the likely range of a token."""
    fit = fitted()
    parts = tpot_parts(fit.tpot, of)
    weights, cache, floor, prompts = (f"{1000 * part:.3g}" for part in parts)
    return (
        f"likely of a token, {users(at)} = weights {weights} + cache {cache} + floor of {of.layers} layers {floor} + "
        f"others' prompts {prompts} = {1000 * sum(parts):.3g} ms, divided and multiplied by {fit.tpot_width**0.5:.2f}  "
        f"[config/data/speed_fit.json, docs/accuracy.md]"
    )


def _parts(parts: Parts, gpu: GpuSpeed) -> str:
    in_gb = gpu.memory_bytes_per_second / 1e9
    read = f"{parts.weights * in_gb:.2f} GB of weights + {parts.cache * in_gb:.2f} GB of cache read on each rank"
    return (
        f"max({read} {1000 * (parts.weights + parts.cache):.3g}, arithmetic {1000 * parts.compute:.3g}, "
        f"link {1000 * parts.link:.3g}) = {1000 * parts.seconds:.3g} ms"
    )
