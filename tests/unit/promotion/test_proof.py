"""What the records of two stacks say of a release. The records are described; the engine's own are in tests/lab."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.stack.file import read_sections, stack_file
from config.stack.sections import StackConfig
from promotion.history import NoRecordsError, Update
from promotion.proof import Proof, Release, proof_of
from tests.program import PROGRAM

NOW = datetime(2026, 12, 2, 12, tzinfo=UTC)
STAGING = read_sections(stack_file("h200-staging", PROGRAM))
PRODUCTION = read_sections(stack_file("h200", PROGRAM)) | {"promotion": {"from": "h200-staging", "soak": "24h"}}
IMAGE = STAGING["engine"]["image"]


def up(hours_ago: float, sections: Mapping[str, Any] = STAGING, **changed: Any) -> Update:
    """An update that took a stack up from a clean checkout."""
    update = Update("update", "succeeded", NOW - timedelta(hours=hours_ago), "c41d7e0" + "0" * 33, True)
    return replace(update, sections=sections, **changed)


def changed(sections: Mapping[str, Any], section: str, **values: Any) -> dict[str, Any]:
    changed = deepcopy(dict(sections))
    changed[section] = {**changed.get(section, {}), **values}
    return changed


@dataclass
class Described:
    """Records of stacks by their names. A stack that is not here has none."""

    history: Mapping[str, list[Update]]
    has: Mapping[str, Any] = field(default_factory=lambda: {"answered": "yes", "release": {"image": IMAGE}})

    def updates(self, stack: str) -> Iterator[Update]:
        if stack not in self.history:
            raise NoRecordsError(f"no stack named '{stack}' found")
        return iter(self.history[stack])

    def outputs(self, stack: str) -> Mapping[str, Any]:
        return self.has


def judged(
    staging: list[Update],
    *,
    ours: list[Update] | None = None,
    sections: Mapping[str, Any] = PRODUCTION,
    outputs: Mapping[str, Any] | None = None,
    lock_sha256: str | None = None,
) -> Proof:
    records = Described({"h200": ours or [], "h200-staging": staging})
    if outputs is not None:
        records.has = outputs
    proof = proof_of(Release("h200", StackConfig.parse(sections), lock_sha256), records, now=NOW)
    assert proof is not None
    return proof


def test_the_two_shipped_stacks_have_one_release() -> None:
    proof = judged([up(48)])
    assert proof == Proof(
        "the stack h200-staging has run this release for 48.0 h, on 2026-11-30 12:00 UTC by commit c41d7e0, and it "
        "answered"
    )


def test_a_stack_that_names_no_other_takes_any_release() -> None:
    assert proof_of(Release("h200-staging", StackConfig.parse(STAGING)), Described({})) is None


OTHER = changed(STAGING, "model", revision="a" * 40)
DIRTY: dict[str, Any] = {"is_clean": False}


@pytest.mark.parametrize(
    ("staging", "reasons"),
    [
        ([], ["was never taken up"]),
        ([up(1, kind="destroy"), up(48)], ["h200-staging was destroyed"]),
        ([up(48, **DIRTY)], ["from a checkout with uncommitted changes"]),
        ([up(48, commit="", **DIRTY)], ["outside of a git checkout"]),
        ([up(2)], ["has run it for 2.0 h: expected 24h"]),
        ([up(1, result="failed"), up(48)], ["the last update of h200-staging failed", "has run it for"]),
        ([up(1, result="in-progress"), up(48)], ["the last update of h200-staging is in progress", "has run it for"]),
        ([up(48, OTHER)], ["runs another release: model.revision differ"]),
        ([up(48, OTHER, **DIRTY)], ["another release: model.revision", "uncommitted changes"]),
        ([up(1, OTHER), up(48)], ["another release: model.revision"]),
        ([up(1), up(3, OTHER), up(48)], ["has run it for 60 min: expected 24h"]),
        ([up(1), up(3, result="failed"), up(48)], ["has run it for 60 min: expected 24h"]),
        ([up(48, {"engine": {}})], ["is not one of this version"]),
    ],
)
def test_every_reason_is_given_at_once(staging: list[Update], reasons: list[str]) -> None:
    proof = judged(staging)
    assert proof.is_refused
    assert len(proof.reasons) == len(reasons)
    for expected, reason in zip(reasons, proof.reasons, strict=True):
        assert expected in reason


@pytest.mark.parametrize(
    "between",
    [
        up(3, changed(STAGING, "engine", max_num_seqs=64)),  # of the place, not of the release
        up(3, kind="refresh"),
        up(3, result="failed", changes_nothing=True),  # such as one that the preflight ended
    ],
)
def test_what_does_not_touch_the_release_does_not_begin_its_soak_again(between: Update) -> None:
    assert not judged([up(1), between, up(48)]).reasons


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ({"answered": "unknown: 403", "release": {"image": IMAGE}}, "answered is unknown: 403"),
        ({"release": {"image": IMAGE}}, "it has no output `answered`"),
        ({"answered": "yes", "release": {"image": "overridden"}}, f"runs the image overridden: expected {IMAGE}"),
        ({"answered": "yes", "release": {"image": IMAGE, "lock_sha256": "1"}}, "of another lock file"),
    ],
)
def test_what_runs_is_read_from_the_outputs(outputs: Mapping[str, Any], reason: str) -> None:
    proof = judged([up(48)], outputs=outputs)
    assert len(proof.reasons) == 1
    assert reason in proof.reasons[0]


def test_a_stack_takes_back_what_it_ran_before_whatever_the_other_one_runs() -> None:
    ours = [up(1, OTHER), up(500, PRODUCTION)]
    proof = judged([up(1, OTHER)], ours=ours)
    assert proof == Proof(
        "the stack h200 ran this release before, on 2026-11-11 16:00 UTC by commit c41d7e0; its nodes are not compared"
    )


@pytest.mark.parametrize("mine", [up(500, PRODUCTION, result="failed"), up(500, PRODUCTION, kind="refresh")])
def test_a_release_that_never_came_up_here_is_not_one_to_go_back_to(mine: Update) -> None:
    assert judged([up(1, OTHER)], ours=[mine]).is_refused


def test_the_stack_file_may_let_an_unproven_release_through() -> None:
    proof = judged([up(2)], sections=changed(PRODUCTION, "promotion", allow_unproven=True))
    assert proof.reasons
    assert not proof.is_refused


def test_records_that_cannot_be_read_are_a_reason() -> None:
    release = Release("h200", StackConfig.parse(PRODUCTION))
    proof = proof_of(release, Described({"h200": []}), now=NOW)
    assert proof == Proof(reasons=["the records of h200-staging cannot be read: no stack named 'h200-staging' found"])


def test_a_stack_cannot_be_proven_by_itself() -> None:
    own = changed(PRODUCTION, "promotion", **{"from": "h200"})
    assert "is this stack" in judged([up(48)], sections=own).reasons[0]
