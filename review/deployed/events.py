"""Runs the engine, and reads its events: the only module that knows their form.

`pulumi preview` and `pulumi refresh` print one event a line with `--json` and PULUMI_ENABLE_STREAMING_JSON_PREVIEW. The
engine writes `[secret]` in place of secrets; values of inputs are not read here at all.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from review.checkout import ReviewError

_STREAMED = {"PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "1", "PULUMI_SKIP_UPDATE_CHECK": "true"}
_CAPACITY = "Capacity Block: "
"""Beginning of what the check of the AWS account says of a block (components/aws/account/preflight.py)."""
_OPERATIONS = {"create": "create", "import": "create", "update": "update", "replace": "replace", "delete": "delete"}
"""Operations that change something. A replacement is also a creation and a deletion, with names of their own."""
_NOT_SHOWN = ("pulumi:pulumi:", "heavylift:")
"""Types of resources that are nothing of their own: the stack and components."""


@dataclass(frozen=True, order=True)
class Step:
    """One resource that the engine would change."""

    operation: str
    """`create`, `update`, `replace` or `delete`."""
    kind: str
    """Such as `Deployment`."""
    name: str
    """Name in the program."""
    paths: Sequence[str] = ()
    """Changed properties of an update or a replacement, such as `spec.replicas`."""
    component: str = ""
    """The component that contains it, such as `InferenceServer`."""


@dataclass(frozen=True, order=True)
class Violation:
    """One sentence of a policy about one resource."""

    rule: str
    message: str
    is_mandatory: bool


@dataclass(frozen=True)
class EngineRun:
    """What a run of the engine said."""

    steps: Sequence[Step] = ()
    violations: Sequence[Violation] = ()
    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()
    failed: bool = False
    """Whether the run ended with an error, or with a violation of a mandatory policy."""
    capacity: str = ""
    """What is left of a Capacity Block for serving, in words. Empty: the stack's nodes are in none."""


def run_engine(*words: str) -> EngineRun:
    """Runs `pulumi WORDS` in the current directory. Raises ReviewError if it says nothing of the stack."""
    command = ["pulumi", *words, "--json", "--non-interactive", "--color=never"]
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **_STREAMED},
            check=False,
        )
    except FileNotFoundError:
        raise ReviewError("there is no `pulumi` on PATH: expected the engine and access to its backend") from None
    events = list(_events(ended.stdout))
    if not events:
        said = (ended.stderr.strip() or ended.stdout.strip()).removeprefix("error: ")
        raise ReviewError(f"pulumi {words[0]} fails: {said}")
    return read_events(events, failed=ended.returncode != 0)


def read_events(events: Sequence[Mapping[str, Any]], *, failed: bool = False) -> EngineRun:
    """What the events of one run say."""
    said = [each["diagnosticEvent"] for each in events if "diagnosticEvent" in each]
    violations = (
        Violation(event["policyName"], _without_description(event["message"]), event["enforcementLevel"] == "mandatory")
        for event in (each["policyEvent"] for each in events if "policyEvent" in each)
    )
    steps = map(_step, _resources(events))
    return EngineRun(
        steps=tuple(sorted(step for step in steps if step)),
        violations=tuple(sorted(set(violations))),
        errors=_texts(said, "error"),
        warnings=_texts(said, "warning"),
        failed=failed,
        capacity=_capacity(said),
    )


def _events(output: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "sequence" in event:
            yield event


def _resources(events: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The resources with their operations. A refresh announces `refresh`, and tells the operation when it is done."""
    refreshed = set()
    for event in events:
        if "resourcePreEvent" in event:
            resource = event["resourcePreEvent"]["metadata"]
            refreshed |= {resource["urn"]} if resource["op"] == "refresh" else set()
            yield resource
        elif "resOutputsEvent" in event and event["resOutputsEvent"]["metadata"]["urn"] in refreshed:
            yield event["resOutputsEvent"]["metadata"]


def _step(resource: Mapping[str, Any]) -> Step | None:
    operation, kind = _OPERATIONS.get(resource["op"]), str(resource["type"])
    if operation is None or kind.startswith(_NOT_SHOWN):
        return None
    *_, types, name = resource["urn"].split("::")
    parents = types.split("$")[:-1]
    paths = resource.get("detailedDiff") or resource.get("diffs") or ()
    return Step(
        operation=operation,
        kind=kind.rpartition(":")[2] if not kind.startswith("pulumi:providers:") else "Provider",
        name=name,
        paths=tuple(sorted(paths)) if operation in ("update", "replace") else (),
        component=parents[-1].rpartition(":")[2] if parents else "",
    )


def _without_description(message: str) -> str:
    """A policy event's message begins with the policy's description, in a line of its own."""
    _, _, rest = message.strip().partition("\n")
    return " ".join((rest or message).split())


def _texts(said: Sequence[Mapping[str, Any]], severity: str) -> tuple[str, ...]:
    found = (str(each["message"]).strip() for each in said if each.get("severity") == severity)
    return tuple(dict.fromkeys(text for text in found if text and not text.startswith(_NOISE)))


def _capacity(said: Sequence[Mapping[str, Any]]) -> str:
    found = (text for text in _texts(said, "info") if text.startswith(_CAPACITY))
    return next(found, "").removeprefix(_CAPACITY)


_NOISE = ("an unhandled error occurred: the program ended", "Cluster is unreachable, skipping", "preview failed")
"""Beginnings of messages that repeat what another one says."""
