"""How long serving stops, and whether the way back downloads anything: a pure function of steps and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from config.units import duration
from review.checkout import StackAt
from review.deployed.events import Step
from review.figures import gigabytes, staged_bytes

_WORKLOADS = ("Deployment", "LeaderWorkerSet")
_STAGES = ("Job", "DaemonSet")
_POD_TEMPLATES = ("spec.template", "spec.leaderWorkerTemplate")
_VOLUMES = ("PersistentVolume", "PersistentVolumeClaim")


@dataclass(frozen=True)
class Interruption:
    """What clients notice."""

    headline: str
    """In a few words, such as `serving stops for about 9 min`."""
    then: str
    """What happens, in order, in one or two sentences."""
    back: str
    """What going back takes."""


def interruption(steps: Sequence[Step], before: StackAt | None, after: StackAt) -> Interruption:
    """What the steps do to clients of the server. `before`: what is deployed; None: nothing is."""
    servers = [step for step in steps if step.kind in _WORKLOADS and step.component == "InferenceServer"]
    operations = {step.operation for step in servers}
    if before is None or operations == {"create"}:
        return _first(steps, after)
    if operations == {"delete"}:
        return Interruption(
            "serving ends", "The server is deleted, and no other one is made.", _back(steps, before, after)
        )
    if operations >= {"create", "delete"}:
        return _another_server(steps, before, after)
    if any(step.operation == "replace" or any(map(_of_pods, step.paths)) for step in servers):
        return _restart(servers, steps, before, after)
    replaced = [step.name for step in steps if step.kind == "Service" and step.operation in ("replace", "delete")]
    if replaced:
        return Interruption(
            "clients lose the Service",
            f"The Service {', '.join(replaced)} is made anew: clients cannot reach the server meanwhile.",
            _back(steps, before, after),
        )
    return Interruption(
        "serving does not stop",
        "The server's pods stay as they are.",
        f"By reverting, also without a stop, and {_download(steps, before, after)}.",
    )


def _first(steps: Sequence[Step], after: StackAt) -> Interruption:
    plan = after.plan or {}
    makes_nodes = any(step.kind == "NodeGroup" for step in steps)
    seconds = (plan.get("download_seconds") or 0) + (plan.get("load_seconds") or 0)
    return Interruption(
        f"first answer in about {duration(seconds)}" if seconds else "a new server",
        "First nodes are made. " * makes_nodes
        + "The weights are staged and verified; then the server loads them, and the Service is made.",
        "By pulumi destroy, which ends the nodes and their disks."
        if makes_nodes
        else "By pulumi destroy. Weights on nodes' disks and in retained volumes stay.",
    )


def _another_server(steps: Sequence[Step], before: StackAt, after: StackAt) -> Interruption:
    old, new = set(_nodes(before)), set(_nodes(after))
    if not old or not new or old & new:
        return Interruption(
            "whether serving stops is not known",
            "A new server is made beside the old one, which holds its GPUs until the new one answers: if both need the "
            "same GPUs, the new one cannot start.",
            _back(steps, before, after),
        )
    first, names = _staging(steps, after), ", ".join(sorted(new))
    return Interruption(
        "serving does not stop",
        first
        + f"The new server loads and answers on {names}, the Service switches to it, and only then the old server on "
        f"{', '.join(sorted(old))} is deleted.",
        f"By reverting, in the same order: serving does not stop, and {_download(steps, before, after)}.",
    )


def _restart(servers: Sequence[Step], steps: Sequence[Step], before: StackAt, after: StackAt) -> Interruption:
    plan, size = after.plan or {}, staged_bytes(after)
    loads = f"about {duration(plan['load_seconds'])}" if plan.get("load_seconds") else "a time that is not known"
    what = f"loads {gigabytes(size)}" if size else "loads the weights"
    first = _staging(steps, after)
    back = f"By reverting: the same stop, and {_download(steps, before, after)}."
    replicas = min(_replicas(before), _replicas(after))
    if replicas > 1 and all(step.kind == "LeaderWorkerSet" for step in servers):
        return Interruption(
            f"one replica of {replicas} at a time stops for {loads}",
            first + f"The replicas restart one after the other, and each {what} and answers before the next one stops.",
            back,
        )
    return Interruption(
        f"serving stops for {loads}",
        first + f"The server stops, {what} from its disk and answers again, since it needs all of its GPUs.",
        back,
    )


def _staging(steps: Sequence[Step], after: StackAt) -> str:
    """What happens first if a stage Job or DaemonSet is made, with a space at its end."""
    if not any(
        step.kind in _STAGES and step.component == "WeightStage" and step.operation != "delete" for step in steps
    ):
        return ""
    plan, size = after.plan or {}, staged_bytes(after)
    amount = f" ({gigabytes(size)})" if size else ""
    time = f", in about {duration(plan['download_seconds'])}" if plan.get("download_seconds") else ""
    return (
        f"First the weights{amount} are staged and verified{time}, while the old server serves; files that the nodes "
        "already have are not downloaded again. "
    )


def _back(steps: Sequence[Step], before: StackAt, after: StackAt) -> str:
    return f"By reverting; {_download(steps, before, after)}."


def _download(steps: Sequence[Step], before: StackAt, after: StackAt) -> str:
    """Whether the old weights are still there after the change."""
    stays = "nothing is downloaded, since the weights stay"
    size = staged_bytes(before)
    again = f"{gigabytes(size)} are downloaded again" if size else "the weights are downloaded again"
    weights = _section(before, "weights")
    if _section(after, "weights").get("keep_newest") == 1:
        if _model(before) != _model(after):
            return f"{again}, since weights.keep_newest is 1"
        if _draft(before) and _draft(after) and _draft(before) != _draft(after):
            return "the draft model is downloaded again, since weights.keep_newest is 1"
    if any(step.kind == "NodeGroup" and step.operation in ("delete", "replace") for step in steps):
        return f"{again}, since the old nodes' disks are deleted with them"
    gone = [step for step in steps if step.kind in _VOLUMES and step.operation in ("delete", "replace")]
    if gone and weights.get("kind") == "claim":
        if weights.get("retain") is False:
            return f"{again}, since the volume is deleted"
        return f"{again}, unless the retained volume is bound again by hand"
    return stays


def _model(stack: StackAt) -> list[Any]:
    """What identifies the weights of the model."""
    return _identity(_section(stack, "model"))


def _draft(stack: StackAt) -> list[Any] | None:
    """What identifies the weights of the draft model. None: the stack has none."""
    draft = _section(stack, "model").get("draft")
    return _identity(draft) if isinstance(draft, dict) else None


def _identity(weights: Mapping[str, Any]) -> list[Any]:
    return [weights.get(key) for key in ("repository", "revision", "include")]


def _of_pods(path: str) -> bool:
    return path.startswith(_POD_TEMPLATES)


def _nodes(stack: StackAt) -> Sequence[str]:
    names = _section(stack, "nodes").get("names")
    return [str(name) for name in names] if isinstance(names, list) else []


def _replicas(stack: StackAt) -> int:
    replicas = _section(stack, "engine").get("replicas")
    return replicas if isinstance(replicas, int) else 1


def _section(stack: StackAt, name: str) -> Mapping[str, Any]:
    values = stack.sections.get(name)
    return values if isinstance(values, dict) else {}
