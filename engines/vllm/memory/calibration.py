"""Calibrates the range of the overhead against public logs.

Each observation is compared with the modelled overhead of the same run. The range spans all of them plus a margin. It
is judged by leaving out whole releases of vLLM and whole GPUs, as `docs/accuracy.md` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, floor

from config.catalogue import Log, Profile, Run, find_checkpoint, find_gpu, ground_truth, overheads
from config.checkpoint.shape import read_shape
from config.units import GIB
from engines.versions import Version
from engines.vllm.memory.nearness import Conditions, Observed, distances
from engines.vllm.memory.overhead import Overhead, Workload, overhead


@dataclass(frozen=True, slots=True)
class Observation:
    """Overhead of one GPU, measured in GiB and modelled in bytes."""

    name: str
    release: str
    """Release of vLLM as `major.minor`."""
    gpu: str
    batched_tokens: int
    measured: float
    modelled: Overhead
    source: str

    @property
    def low_ratio(self) -> float:
        """The ratio at which the likely end of the range is what was measured."""
        return (self.measured * GIB - self.modelled.graphs_low) / self.modelled.base

    @property
    def high_ratio(self) -> float:
        """The ratio at which the worst end of the range is what was measured."""
        beside = self.modelled.graphs_high + self.modelled.weights_share
        return (self.measured * GIB - beside) / self.modelled.base


@dataclass(frozen=True, slots=True)
class HeldOut:
    """An observation, and the range in GiB that the observations of other releases or GPUs give for its run."""

    observation: Observation
    likely: float
    worst: float

    @property
    def inside(self) -> bool:
        return self.likely <= self.observation.measured <= self.worst

    @property
    def beyond_worst(self) -> float:
        """Share of the GPU's memory by which the run takes more than the worst end; 0: it does not."""
        memory = find_gpu(self.observation.gpu).torch_gib or 0.0
        return max(0.0, self.observation.measured - self.worst) / memory


@cache
def observations() -> tuple[Observation, ...]:
    """Every log, run and profile from which the overhead of a GPU follows."""
    truth = ground_truth()
    logs = [_of_log(log) for log in truth.logs]
    return (*filter(None, logs), *map(_of_run, truth.runs), *map(_of_profile, truth.profiles))


def ratios(found: Iterable[Observation]) -> tuple[float, float]:
    """The low and high ratio that span the observations plus the margin, rounded outwards to two decimals."""
    spanned, margin = tuple(found), overheads().margin
    low = min(observation.low_ratio for observation in spanned) - margin
    high = max(observation.high_ratio for observation in spanned) + margin
    return floor(low * 100) / 100, ceil(high * 100) / 100


@cache
def observed() -> Observed:
    """What all observations cover."""
    return _covered(observations())


def held_out(group: Callable[[Observation], str]) -> Iterator[HeldOut]:
    """Each observation, judged by those outside its group: of other releases, or of other GPUs."""
    found = observations()
    for name in dict.fromkeys(map(group, found)):
        others = [each for each in found if group(each) != name]
        low, high = ratios(others)
        covered = _covered(others)
        for each in found:
            if group(each) == name:
                yield _judged(each, low, high, covered)


def _judged(each: Observation, low: float, high: float, covered: Observed) -> HeldOut:
    conditions = Conditions(each.release, each.gpu, each.gpu, each.batched_tokens)
    high += sum(distance.widening for distance in distances(conditions, covered))
    part = each.modelled
    likely = low * part.base + part.graphs_low
    worst = high * part.base + part.graphs_high + part.weights_share
    return HeldOut(each, likely / GIB, worst / GIB)


def _covered(found: Iterable[Observation]) -> Observed:
    spanned = tuple(found)
    return Observed(
        releases=frozenset(each.release for each in spanned),
        gpus=frozenset(each.gpu for each in spanned),
        batched_tokens=max(each.batched_tokens for each in spanned),
    )


def _of_log(log: Log) -> Observation | None:
    """The observation of a log; `None` if the log lacks a figure that it needs.

    Missing batched tokens and sequences are assumed to be those of the profiles.
    """
    if log.util is None or log.kv_gib is None or log.tp is None or not isinstance(log.weights_gib, float):
        return None
    truth = ground_truth()
    model, checkpoint = find_checkpoint(log.checkpoint)
    shape = read_shape(model.config)
    experts = shape.experts
    workload = Workload(
        tp=log.tp,
        pp=1,
        dp=1,
        expert_parallel=False,
        last_stage=True,
        hidden=shape.hidden,
        dense_width=0 if experts and not experts.dense_layers else shape.dense_width,
        vocabulary=shape.vocabulary,
        experts_active=experts.active if experts else 0,
        expert_width=experts.width if experts else 0,
        experts_local=experts.count if experts and checkpoint.format == "fp8" else 0,
        vision=shape.vision is not None,
        batched_tokens=log.max_num_batched_tokens or truth.profiles_batched_tokens,
        sequences=log.max_num_seqs or truth.profiles_sequences,
    )
    version = Version.parse((log.engine or "").removeprefix("vLLM ").removesuffix(" series"))
    # The budget as the log prints it, or the GPU's memory times the utilisation.
    budget = log.budget_gib or (find_gpu(log.gpu or "").torch_gib or 0.0) * log.util
    return Observation(
        name=f"log {log.id}: {log.model}, TP{log.tp}",
        release=version.release,
        gpu=log.gpu or "",
        batched_tokens=workload.batched_tokens,
        measured=budget - log.weights_gib - log.kv_gib,
        modelled=overhead(workload, version, log.weights_gib * GIB),
        source=log.source,
    )


def _of_run(run: Run) -> Observation:
    experts, version = run.shape.experts, Version.parse(run.engine)
    workload = Workload(
        tp=run.tp,
        pp=1,
        dp=1,
        expert_parallel=run.expert_parallel,
        last_stage=True,
        hidden=run.shape.hidden,
        dense_width=run.shape.dense_width,
        vocabulary=run.shape.vocabulary,
        experts_active=experts.active if experts else 0,
        expert_width=experts.width if experts else 0,
        experts_local=experts.aligned if experts else 0,
        vision=False,
        batched_tokens=run.max_num_batched_tokens,
        sequences=run.max_num_seqs,
    )
    memory = find_gpu(run.gpu).torch_gib or 0.0
    note = f" ({run.note})" if run.note else ""
    return Observation(
        name=f"run {run.id}: {run.model}, TP{run.tp}, {run.max_num_batched_tokens:,} batched tokens{note}",
        release=version.release,
        gpu=run.gpu,
        batched_tokens=run.max_num_batched_tokens,
        measured=memory * run.util - run.weights_gib - run.kv_gib,
        modelled=overhead(workload, version, run.weights_gib * GIB),
        source=run.source,
    )


def _of_profile(profile: Profile) -> Observation:
    truth, experts = ground_truth(), profile.experts
    version = Version.parse(truth.profiles_engine)
    workload = Workload(
        tp=profile.tp,
        pp=profile.pp,
        dp=1,
        expert_parallel=False,
        last_stage=profile.last_stage,
        hidden=profile.hidden,
        dense_width=profile.dense_width,
        vocabulary=profile.vocabulary,
        experts_active=experts.active if experts else 0,
        expert_width=experts.width if experts else 0,
        experts_local=0,
        vision=profile.vision,
        batched_tokens=truth.profiles_batched_tokens,
        sequences=truth.profiles_sequences,
    )
    stage = "" if profile.last_stage else ", first stage"
    return Observation(
        name=f"{profile.model}, TP{profile.tp} PP{profile.pp}{stage}",
        release=version.release,
        gpu="h100",
        batched_tokens=truth.profiles_batched_tokens,
        measured=profile.activation_gib + profile.non_torch_gib,
        # A profile is of activations and of memory outside torch, without graphs.
        modelled=replace(overhead(workload, version, 0.0), graphs_low=0.0, graphs_high=0.0),
        source=truth.profiles_source.split(";")[0],
    )
