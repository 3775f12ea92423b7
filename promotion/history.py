"""What the engine recorded of a stack: its updates and its outputs, from any backend.

Runs the `pulumi` of PATH in the program's directory, in the caller's environment: the backend is the caller's own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from config.stack.file import NAMESPACE, SECRETS

_PER_PAGE = 50
_SECONDS = 60
_MOST_SAID = 300


class NoRecordsError(Exception):
    """The engine gives no records of a stack. The message gives the reason in one line."""


@dataclass(frozen=True)
class Update:
    """One run of the engine that is in a stack's history."""

    kind: str
    """Such as `update`, `refresh` or `destroy`."""
    result: str
    """`succeeded`, `failed` or `in-progress`."""
    ended: datetime
    commit: str = ""
    """Full commit of the checkout. Empty: it was no git checkout."""
    is_clean: bool = False
    """Whether the checkout had no uncommitted changes."""
    changes_nothing: bool = False
    """Whether every resource stayed the same."""
    sections: Mapping[str, Any] | None = None
    """What the stack file said, without the prefix `heavylift:` and without secrets."""

    @property
    def succeeded(self) -> bool:
        """Whether it took the stack up, and ended well."""
        return self.kind == "update" and self.result == "succeeded"


class Records(Protocol):
    """Where the records of stacks come from. Each method raises NoRecordsError."""

    def updates(self, stack: str) -> Iterator[Update]:
        """The history of a stack, newest first."""

    def outputs(self, stack: str) -> Mapping[str, Any]:
        """The outputs that a stack has now."""


class StateRecords(Records, Protocol):
    """Records with the state."""

    def resources(self, stack: str) -> Sequence[Mapping[str, Any]]:
        """The resources that a stack has now. Raises NoRecordsError."""


class EngineRecords:
    """The records of the engine's backend."""

    def updates(self, stack: str) -> Iterator[Update]:
        """Reads the history page by page, as far as the caller goes."""
        page = 0
        while True:
            page += 1
            paging = ("--page-size", str(_PER_PAGE), "--page", str(page))
            entries = _asked("stack", "history", "--json", "--stack", stack, *paging)
            yield from map(_update, entries)
            if len(entries) < _PER_PAGE:
                return

    def outputs(self, stack: str) -> Mapping[str, Any]:
        """Reads the outputs; secrets are not shown."""
        outputs: Mapping[str, Any] = _asked("stack", "output", "--json", "--stack", stack)
        return outputs

    def resources(self, stack: str) -> Sequence[Mapping[str, Any]]:
        """Reads the resources of the state; secrets are not shown."""
        deployment: Mapping[str, Any] = _asked("stack", "export", "--stack", stack)["deployment"]
        return deployment.get("resources") or ()


def _update(entry: Mapping[str, Any]) -> Update:
    environment = entry.get("environment") or {}
    return Update(
        kind=str(entry["kind"]),
        result=str(entry["result"]),
        ended=datetime.fromisoformat(entry.get("endTime") or entry["startTime"]),
        commit=environment.get("git.head", ""),
        is_clean=environment.get("git.dirty") == "false",
        changes_nothing=set(entry.get("resourceChanges") or ()) <= {"same"},
        sections={
            key.removeprefix(NAMESPACE): value.get("objectValue", value.get("value"))
            for key, value in (entry.get("config") or {}).items()
            if key.startswith(NAMESPACE) and key.removeprefix(NAMESPACE) not in SECRETS and not value.get("secret")
        },
    )


def _asked(*words: str) -> Any:
    command = ["pulumi", *words, "--non-interactive", "--color=never"]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise NoRecordsError("there is no `pulumi` on PATH") from None
    except subprocess.TimeoutExpired:
        raise NoRecordsError(f"`pulumi {words[0]} {words[1]}` gave no answer within {_SECONDS} s") from None
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip()).removeprefix("error: ")
        raise NoRecordsError(" ".join(said.split())[:_MOST_SAID])
    try:
        return json.loads(ended.stdout)
    except ValueError:
        raise NoRecordsError(f"`pulumi {words[0]} {words[1]}` printed no JSON") from None
