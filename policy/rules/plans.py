"""Rules about the plan: it fits, it is not too dear, and the server has the time to load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.resources import Resource, at, model_of, models, pods
from policy.rules.rule import Rule, Violation


def _fits(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for model in models(resources):
        verdict = at(model.properties, "plan", "verdict")
        if verdict not in ("fits", "tight"):
            yield Violation(
                f"The plan of {model.name} is {verdict or 'missing'}: nobody knows whether it fits. Correct what the "
                "plan's problems name, or add the missing facts to the catalogue.",
                model,
            )


def _not_tight(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for model in models(resources):
        if at(model.properties, "plan", "verdict") == "tight":
            yield Violation(
                f"The plan of {model.name} is tight: at the worst end of the estimate it does not fit. Lower "
                "max_model_len, or take more GPUs.",
                model,
            )


def _startup(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for pod in pods(resources):
        model = model_of(pod.owner)
        seconds = float((at(model.properties, "plan", "load_seconds") if model else None) or 0)
        for container in pod.containers if pod.is_server and seconds else ():
            if not container.fields.get("ports"):  # a group's workers answer no probe
                continue
            probe = container.fields.get("startupProbe") or {}
            allowed = (probe.get("failureThreshold") or 3) * (probe.get("periodSeconds") or 10) if probe else 0
            if allowed < seconds:
                yield Violation(
                    f"The startup probe of {container.name} allows {allowed:.0f} s, and the model loads for "
                    f"{seconds:.0f} s: the kubelet would end it while it loads. Raise failureThreshold.",
                    pod.owner,
                )


def _cost(resources: Sequence[Resource], settings: Mapping[str, Any]) -> Iterator[Violation]:
    ceiling, total, last = settings.get("usd_per_hour"), 0.0, None
    if ceiling is None:
        return
    for model in models(resources):
        hourly = at(model.properties, "plan", "cost_per_hour_usd")
        if hourly is None:
            yield Violation(f"The cost of {model.name} is not known. State nodes.usd_per_gpu_hour.", model)
        total, last = total + (hourly or 0), model
    if last and total > ceiling:
        yield Violation(
            f"The stack costs {total:,.2f} $ per hour, and the ceiling is {ceiling:,.2f} $. Take fewer or other GPUs, "
            "or raise the ceiling.",
            last,
        )


RULES = (
    Rule("plan-fits", "The planner knows that the model fits.", _fits),
    Rule("plan-not-tight", "The model fits at the worst end of the estimate too.", _not_tight, is_mandatory=False),
    Rule("startup-budget-covers-load", "The startup probe lasts as long as the model loads.", _startup),
    Rule(
        "cost-ceiling",
        "The stack costs at most `usd_per_hour` dollars an hour. Without that setting, the rule finds nothing.",
        _cost,
        settings={"usd_per_hour": {"type": "number", "minimum": 0}},
    ),
)
