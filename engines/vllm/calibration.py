"""The two ratios of the overhead's range, from what public logs measured.

Each observation is compared with the model's own sum for the same run. The range spans all of them and a margin, and
is judged by leaving each out in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from config.catalogue import find_checkpoint, find_gpu, ground_truth, overheads
from config.checkpoint.shape import read_shape
from config.quantity import GIB
from engines.versions import Version
from engines.vllm.overhead import Workload, overhead

_PROFILES_ENGINE = "0.19.0"
_PROFILES_TOKENS = 8192
_PROFILES_SEQUENCES = 1024


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
    logs = [_of_log(log) for log in truth["logs"] if {"util", "weights_gib", "kv_gib"} <= log.keys()]
    return (*logs, *(_of_profile(profile) for profile in truth["profiles"]))


def ratios(measured: Iterable[Observation]) -> tuple[float, float]:
    """The low and high ratio that span the observations, with the margin, to two decimals outwards."""
    found = [observation.ratio for observation in measured]
    margin = overheads()["margin"]
    return floor((min(found) - margin) * 100) / 100, ceil((max(found) + margin) * 100) / 100


def _of_log(log: dict[str, Any]) -> Observation:
    shape = read_shape(find_checkpoint(log["checkpoint"])[0].config)
    block_fp8 = find_checkpoint(log["checkpoint"])[1].format == "fp8"
    experts = shape.experts
    workload = Workload(
        tp=log["tp"],
        pp=1,
        dp=1,
        expert_parallel=False,
        last_stage=True,
        hidden=shape.hidden,
        dense_width=0 if experts and not experts.dense_layers else shape.dense_width,
        vocabulary=shape.vocabulary,
        experts_active=experts.active if experts else 0,
        expert_width=experts.width if experts else 0,
        experts_local=experts.count if experts and block_fp8 else 0,
        vision=shape.vision is not None,
        batched_tokens=log.get("max_num_batched_tokens", _PROFILES_TOKENS),
        sequences=log.get("max_num_seqs", _PROFILES_SEQUENCES),
    )
    version = Version.parse(log["engine"].removeprefix("vLLM ").removesuffix(" series"))
    modelled = overhead(workload, version, 0.0)
    return Observation(
        name=f"log {log['id']}: {log['model']}, TP{log['tp']}",
        measured=_budget_gib(log) - log["weights_gib"] - log["kv_gib"],
        modelled=(modelled.base + modelled.graphs_low) / GIB,
    )


def _budget_gib(log: dict[str, Any]) -> float:
    """As the log prints it, or the GPU's memory times the utilisation."""
    if "budget_gib" in log:
        return float(log["budget_gib"])
    return float((find_gpu(log["gpu"]).torch_gib or 0.0) * log["util"])


def _of_profile(profile: dict[str, Any]) -> Observation:
    experts = profile.get("experts") or {"active": 0, "width": 0}
    workload = Workload(
        tp=profile["tp"],
        pp=profile["pp"],
        dp=1,
        expert_parallel=False,
        last_stage=profile["last_stage"],
        hidden=profile["hidden"],
        dense_width=profile["dense_width"],
        vocabulary=profile["vocabulary"],
        experts_active=experts["active"],
        expert_width=experts["width"],
        experts_local=0,
        vision=profile["vision"],
        batched_tokens=_PROFILES_TOKENS,
        sequences=_PROFILES_SEQUENCES,
    )
    stage = "" if profile["last_stage"] else ", first stage"
    return Observation(
        name=f"{profile['model']}, TP{profile['tp']} PP{profile['pp']}{stage}",
        measured=profile["activation_gib"] + profile["non_torch_gib"],
        modelled=overhead(workload, Version.parse(_PROFILES_ENGINE), 0.0).base / GIB,
    )
