"""The speed of a plan: its bound at one user, and at the most users whose requests the KV cache holds."""

from __future__ import annotations

from dataclasses import replace

from config.catalogue import Gpu, GpuSpeed, described_gpu, find_gpu
from config.checkpoint.attention import LatentAttention
from config.checkpoint.model_spec import ModelSpec
from engines.plan import Plan
from engines.registry import engine_of
from engines.request import FitRequest
from engines.speed import GpuHours, Speed, SpeedAt, Times, Workload
from planner.speed.bound import decode_step, prefill
from planner.speed.likely import Features, fitted, likely_times
from planner.speed.nearness import Conditions, attention_of, generation_of, what_is_far
from planner.speed.work import Work, work_of

_SECONDS_PER_HOUR = 3600


def with_speed(plan: Plan, request: FitRequest, model: ModelSpec, workload: Workload | None = None) -> Plan:
    """Adds the speed to a plan of requests like these. Without a workload: the default one, if the context holds it."""
    found = work_of_plan(plan, request, model)
    asked = workload or _within(plan.context, Workload())
    users = most_users(plan, asked)
    if plan.verdict == "rejected" or found is None or not users:
        return plan
    return replace(plan, speed=_speed(plan, request, model, *found, asked, users))


def work_of_plan(plan: Plan, request: FitRequest, model: ModelSpec) -> tuple[Work, GpuSpeed] | None:
    """What a rank of a plan does for a token, and the GPU. None: not known, or there is no GPU."""
    gpu = described_gpu(request.gpu).speed if request.gpu else None
    if gpu is None or plan.per_gpu is None or plan.per_gpu.kv_bytes_per_token is None:
        return None
    online = engine_of(request.engine).online_quantization
    if request.quantization in online and not model.quantization.method and model.shape.derivable:
        model = model.quantized_online()
    work = work_of(model, gpu, plan.layout, plan.per_gpu.kv_bytes_per_token)
    return None if work is None else (work, gpu)


def most_users(plan: Plan, workload: Workload) -> int:
    """Users whose requests the KV cache surely holds, and the engine computes at a time."""
    if plan.kv_tokens is None:
        return 0
    held = plan.kv_tokens[0] // workload.tokens
    if plan.cache_blocks is not None:
        held = plan.cache_blocks.requests(workload.tokens)
    return plan.layout.dp * min(held, plan.sequences or held)


def _within(context: int | None, workload: Workload) -> Workload:
    """The workload, or a shorter one of the same proportions that fits in a context."""
    if context is None or context >= workload.tokens:
        return workload
    answer = max(1, context * workload.answer_tokens // workload.tokens)
    return Workload(max(1, context - answer), answer)


def speed_at(plan: Plan, request: FitRequest, model: ModelSpec, workload: Workload, users: int) -> SpeedAt | None:
    """The speed at a number of users. None: the plan does not hold so many of these requests, or no speed is known."""
    found = work_of_plan(plan, request, model)
    if found is None or most_users(plan, workload) < users or (plan.context or 0) < workload.tokens:
        return None
    far = what_is_far(_conditions(plan, request, model, found[1], workload), fitted())
    return _at(request, model, *found, workload, users, ranged=not far)


def speeds_over_users(plan: Plan, request: FitRequest, model: ModelSpec) -> tuple[SpeedAt, ...]:
    """The speed at 1, 2, 4 and so on users, up to the most of the plan. Empty: no speed is known."""
    if plan.speed is None:
        return ()
    most, workload = plan.speed.most.users, plan.speed.workload
    counts = [*(2**power for power in range(most.bit_length()) if 2 ** (power + 1) <= most), most]
    return tuple(at for each in counts if (at := speed_at(plan, request, model, workload, each)) is not None)


def _speed(
    plan: Plan, request: FitRequest, model: ModelSpec, work: Work, gpu: GpuSpeed, workload: Workload, users: int
) -> Speed:
    far = what_is_far(_conditions(plan, request, model, gpu, workload), fitted())
    counts = {1, users} if far else {1, min(users, fitted().most_users), users}
    at = tuple(_at(request, model, work, gpu, workload, count, ranged=not far) for count in sorted(counts))
    return Speed(
        workload=workload,
        gpus=plan.layout.gpus,
        at=at,
        least_gpu_hours=_least_gpu_hours(plan, work, gpu, workload, at[-1]),
        usd_per_gpu_hour=_usd_per_gpu_hour(plan, request),
        tokens_per_step=_tokens_per_step(request),
        why_no_range=f"no published speed {' or '.join(far)}" if far else None,
    )


def _at(
    request: FitRequest, model: ModelSpec, work: Work, gpu: GpuSpeed, workload: Workload, users: int, *, ranged: bool
) -> SpeedAt:
    """The speed at a number of users; with a range if published speeds are near, and of so many users."""
    bound = bound_times(work, gpu, workload, users, _tokens_per_step(request))
    if not ranged or users > fitted().most_users:
        return SpeedAt(users, bound)
    features = features_of(model, work, find_gpu(request.gpu or ""), gpu, workload, users)
    return SpeedAt(users, bound, likely_times(fitted(), features, bound))


def features_of(model: ModelSpec, work: Work, gpu: Gpu, speed: GpuSpeed, workload: Workload, users: int) -> Features:
    """What the likely times depend on."""
    step = decode_step(work, speed, users, workload.middle)
    return Features(
        users=users,
        layers=work.layers,
        experts=work.experts > 0,
        sums=work.layout.tp > 1,
        latent=isinstance(model.shape.attention, LatentAttention),
        generation=generation_of(gpu),
        weights=step.weights,
        cache=step.cache,
        prefill=prefill(work, speed, max(1, workload.prompt_tokens)).seconds,
        answer_tokens=workload.answer_tokens,
    )


def _tokens_per_step(request: FitRequest) -> int:
    return 1 + (request.speculative_tokens or 0)


def _conditions(plan: Plan, request: FitRequest, model: ModelSpec, gpu: GpuSpeed, workload: Workload) -> Conditions:
    """What published speeds must be of, to be near a plan."""
    settings = {
        "speculative decoding": request.speculative_tokens is not None,
        "eager mode": request.enforce_eager,
        "weights in host memory": request.cpu_offload_gb is not None or request.expert_offload,
        "adapters": request.max_loras is not None,
    }
    return Conditions(
        engine=request.engine,
        generation=generation_of(find_gpu(request.gpu or "")),
        attention=attention_of(model.shape),
        prompt_tokens=workload.prompt_tokens,
        link_bytes_per_second=gpu.link_bytes_per_second,
        layout=plan.layout,
        settings=tuple(name for name, has in settings.items() if has),
    )


def bound_times(work: Work, gpu: GpuSpeed, workload: Workload, users: int, per_step: int = 1) -> Times:
    """The least times of each user. `per_step`: most tokens of an answer that a step yields for a request."""
    step = decode_step(work, gpu, users, workload.middle)
    return Times(tpot=step.seconds / per_step, ttft=prefill(work, gpu, workload.prompt_tokens).seconds)


def _least_gpu_hours(plan: Plan, work: Work, gpu: GpuSpeed, workload: Workload, most: SpeedAt) -> GpuHours:
    """GPU hours for a million tokens. Many prompts share one read of the weights, which is left out."""
    prompts = prefill(work, gpu, workload.prompt_tokens, prompts=plan.layout.dp)
    per_prompt_token = max(prompts.compute, prompts.link) / (workload.prompt_tokens * plan.layout.dp)
    hours = plan.layout.gpus * 1e6 / _SECONDS_PER_HOUR
    return GpuHours(prompts=hours * per_prompt_token, answers=hours * most.bound.tpot / most.users)


def _usd_per_gpu_hour(plan: Plan, request: FitRequest) -> float | None:
    """The cost of the stack, its cluster and spare nodes included, by the GPUs of its servers."""
    if plan.cost_per_hour_usd is None:
        return None
    replicas = request.deployment.replicas if request.deployment else 1
    return plan.cost_per_hour_usd / (plan.layout.gpus * replicas)
