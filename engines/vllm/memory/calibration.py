"""Calibrates the range of the overhead against public logs.

Each observation is compared with the modelled overhead of the same run. The range spans all ratios plus a margin. It is
validated by leaving out each observation in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor

from config.catalogue import Log, Profile, find_checkpoint, find_gpu, ground_truth, overheads
from config.checkpoint.shape import read_shape
from config.units import GIB
from engines.versions import Version
from engines.vllm.memory.overhead import Workload, overhead


@dataclass(frozen=True, slots=True)
class Observation:
    """Overhead of one GPU, measured and modelled, in GiB."""

    name: str
    measured: float
    modelled: float

    @property
    def ratio(self) -> float:
        return self.measured / self.modelled


def observations() -> tuple[Observation, ...]:
    """Every log and profile from which the overhead of a GPU follows."""
    truth = ground_truth()
    logs = [_of_log(log) for log in truth.logs]
    return (*filter(None, logs), *map(_of_profile, truth.profiles))


def ratios(measured: Iterable[Observation]) -> tuple[float, float]:
    """The low and high ratio that span the observations plus the margin, rounded outwards to two decimals."""
    found = [observation.ratio for observation in measured]
    margin = overheads().margin
    return floor((min(found) - margin) * 100) / 100, ceil((max(found) + margin) * 100) / 100


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
    modelled = overhead(workload, version, 0.0)
    # The budget as the log prints it, or the GPU's memory times the utilisation.
    budget = log.budget_gib or (find_gpu(log.gpu or "").torch_gib or 0.0) * log.util
    return Observation(
        name=f"log {log.id}: {log.model}, TP{log.tp}",
        measured=budget - log.weights_gib - log.kv_gib,
        modelled=(modelled.base + modelled.graphs_low) / GIB,
    )


def _of_profile(profile: Profile) -> Observation:
    truth, experts = ground_truth(), profile.experts
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
        measured=profile.activation_gib + profile.non_torch_gib,
        modelled=overhead(workload, Version.parse(truth.profiles_engine), 0.0).base / GIB,
    )
