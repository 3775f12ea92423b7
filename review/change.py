"""What changes between two checkouts: stacks, their settings and the files of their locks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from review.checkout import StackAt, Stacks
from review.deployed.events import EngineRun
from review.deployed.interruption import Interruption
from review.figures import Row, rows
from review.text import without_credentials
from stager.listing import Listing, RemoteFile

if TYPE_CHECKING:
    # The import takes longer than the plans of five stacks.
    from promotion.proof import Proof

_ORDER = ("invalid", "rejected", "refused", "unknown", "tight", "fits", "deleted")
"""Verdicts as a report lists them: first what needs a decision."""

_DIGITS = 16
_HIDDEN = "(not shown)"
_SECRET_WORDS = {"key", "token", "secret", "password"}


@dataclass(frozen=True)
class Setting:
    """One key of the stack file that differs; None on the side that lacks it."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class LockedFile:
    """One file of a lock that differs; None on the side that lacks it."""

    path: str
    before: RemoteFile | None
    after: RemoteFile | None


@dataclass(frozen=True)
class Deployment:
    """What the engine says of a stack that is previewed."""

    run: EngineRun
    serving: Interruption | None = None
    """None: the preview failed before the engine knew the steps."""
    proof: Proof | None = None
    """None: the stack names no stack that runs its releases first."""

    @property
    def is_refused(self) -> bool:
        """Whether `pulumi up` would refuse the change."""
        return self.run.failed or (self.proof is not None and self.proof.is_refused)


@dataclass(frozen=True)
class StackChange:
    """One stack whose file, lock or plan differs. One of the sides may be missing, but not both."""

    file: str
    before: StackAt | None
    """With `deployment`, what the stack runs now."""
    after: StackAt | None
    deployment: Deployment | None = None
    """None: only plans are compared."""

    @property
    def name(self) -> str:
        """The stack's name; with its directory, where the file is not in the program's own."""
        path = Path(self.file)
        name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        return name if str(path.parent) == "." else f"{path.parent}/{name}"

    @property
    def kind(self) -> Literal["new", "deleted", "changed"]:
        """What happens to the stack file."""
        return "new" if self.before is None else "deleted" if self.after is None else "changed"

    @property
    def after_or_empty(self) -> StackAt:
        """The new side, or one without anything."""
        return self.after or StackAt({})

    @property
    def verdict(self) -> str:
        """The verdict on the new side; `deleted` if there is none, `refused` if only `pulumi up` refuses it."""
        verdict = self.after.verdict if self.after else "deleted"
        if self.deployment and self.deployment.is_refused and verdict not in ("rejected", "invalid"):
            return "refused"
        return verdict

    @cached_property
    def rows(self) -> list[Row]:
        """The figures to compare."""
        return rows(self.before, self.after)

    @cached_property
    def settings(self) -> list[Setting]:
        """The keys of the stack file that differ, sorted. Empty for a new or deleted stack."""
        if self.before is None or self.after is None:
            return []
        old, new = dict(_settings(self.before.sections)), dict(_settings(self.after.sections))
        keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        return [
            Setting(
                key,
                shown_setting(key, old[key]) if key in old else None,
                shown_setting(key, new[key]) if key in new else None,
            )
            for key in keys
        ]

    @cached_property
    def files(self) -> list[LockedFile]:
        """The files of the lock that differ, sorted. Empty unless both sides have a lock."""
        locks = [side.lock if side else None for side in (self.before, self.after)]
        if None in locks:
            return []
        old, new = map(_by_path, locks)
        paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
        return [LockedFile(path, old.get(path), new.get(path)) for path in paths]

    @property
    def stages_other_weights(self) -> bool:
        """Whether the stager has to bring weights that the stack did not have."""
        if self.before is None or self.after is None:
            return self.before is None
        return _weights(self.before) != _weights(self.after)


@dataclass(frozen=True)
class Report:
    """Every stack that changes, with the commits that were compared."""

    base: str
    """Short commit of the base. Empty: compared with what is deployed."""
    head: str
    """Short commit of the working tree."""
    stacks: Sequence[StackChange] = ()
    unchanged: int = 0
    """Stacks that are the same on both sides."""
    notes: Sequence[str] = ()
    """What a reader must know about the comparison itself."""

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the stacks, their verdicts, plans and steps: another one is another change."""
        said = [
            [
                stack.file,
                stack.verdict,
                stack.after_or_empty.plan,
                stack.deployment and asdict(stack.deployment)["run"]["steps"],
            ]
            for stack in self.stacks
        ]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]

    @property
    def verdicts(self) -> set[str]:
        """The verdicts of all stacks that change."""
        return {stack.verdict for stack in self.stacks}


def compare(before: Stacks, after: Stacks) -> tuple[list[StackChange], int]:
    """The stacks that differ, in the order of a report, and how many do not."""
    changes = [
        StackChange(file, before.get(file), after.get(file))
        for file in sorted(before.keys() | after.keys())
        if _differ(before.get(file), after.get(file))
    ]
    return in_order(changes), len(after.keys() - {change.file for change in changes})


def in_order(changes: Iterable[StackChange]) -> list[StackChange]:
    """The changes in the order of a report."""
    return sorted(changes, key=lambda change: (_ORDER.index(change.verdict), change.file))


def _differ(before: StackAt | None, after: StackAt | None) -> bool:
    if before and after and not before.plan and not before.faults:  # the planner of the base does not run
        return before.sections != after.sections
    return before != after


def _settings(sections: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each key with its path, such as `engine.max_model_len`, and its value; objects are opened."""
    for key, value in sections.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _settings(value, f"{path}.")
        else:
            yield path, value


def shown_setting(key: str, value: Any) -> str:
    """A value of the stack file on one line, by its key (`engine.image`).

    Environment variables may hold what is secret, and are not shown.
    """
    if ".environment" in key or key.endswith(".secure"):
        return _HIDDEN
    if key == "engine.extra_args" and isinstance(value, list):
        return json.dumps(list(_without_secrets(value)), ensure_ascii=False)
    return without_credentials(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _without_secrets(arguments: Sequence[Any]) -> Iterator[str]:
    """The arguments without the values of those whose name speaks of a key, token, secret or password."""
    hide_next = False
    for argument in map(str, arguments):
        name, equals, _ = argument.partition("=")
        secret = name.startswith("-") and not _SECRET_WORDS.isdisjoint(name.split("-"))
        if hide_next and not argument.startswith("-"):
            yield _HIDDEN
        else:
            yield f"{name}={_HIDDEN}" if secret and equals else argument
        hide_next = secret and not equals


def _by_path(lock: Listing | None) -> dict[str, RemoteFile]:
    return {file.path: file for file in lock.files} if lock else {}


def _weights(stack: StackAt) -> tuple[Any, ...]:
    """What decides which files are staged."""
    model = stack.sections.get("model")
    keys = ("repository", "revision", "include", "draft")
    stated = [model.get(key) for key in keys] if isinstance(model, dict) else []
    return (*stated, sorted(stack.lock.files, key=lambda file: file.path) if stack.lock else None)
