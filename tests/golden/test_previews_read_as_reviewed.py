"""Comments of `review preview`, word for word, made of events that the engine gave (tests/lab/test_review.py).

After a wanted change: `pytest tests/golden --regenerate-golden`, and read what changed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.stack.file import NAMESPACE, read_sections, stack_file
from config.stack.weights import lock_sha256
from planner.__main__ import main as planner
from promotion.history import Update
from review import probe
from review.change import Report
from review.checkout import StackAt, read_stacks
from review.deployed.events import read_events
from review.deployed.preview import previewed
from review.markdown import LIMIT, PREVIEW_MARKER, markdown
from review.terminal import terminal
from tests.program import PROGRAM
from tests.review_cases import BLOCK, DEPLOYED, EVENTS, LOCKS, PREVIEWS

GOLDEN = Path(__file__).parent / "review"
NOW = datetime(2026, 12, 2, 12, tzinfo=UTC)
Sections = Mapping[str, Mapping[str, Any]]


@dataclass
class Described:
    """Records in which `h200` runs `deployed`, and `h200-staging` has run what is proposed for two days."""

    deployed: StackAt
    proposed: StackAt

    def updates(self, stack: str) -> Iterator[Update]:
        side = self.deployed if stack == "h200" else self.proposed
        yield Update(
            "update", "succeeded", NOW - timedelta(hours=52), "c41d7e0" + "0" * 33, True, sections=side.sections
        )

    def outputs(self, stack: str) -> Mapping[str, Any]:
        side = self.deployed if stack == "h200" else self.proposed
        image = side.sections["engine"]["image"]
        lock = lock_sha256(LOCKS[side.sections["stage"]["lock"]])
        return {"answered": "yes", "release": {"image": image, "lock_sha256": lock}, "plan": side.plan}

    def resources(self, stack: str) -> Sequence[Mapping[str, Any]]:
        side = self.deployed if stack == "h200" else self.proposed
        files = {"weights.lock.json": LOCKS[side.sections["stage"]["lock"]], "stager": "a program"}
        return [
            {"type": "pulumi:pulumi:Stack", "outputs": {}},
            {"type": "kubernetes:core/v1:ConfigMap", "outputs": {"data": files}},
        ]


class Undeployed:
    """Records of stacks that were never taken up."""

    def updates(self, stack: str) -> Iterator[Update]:
        yield from ()

    def outputs(self, stack: str) -> Mapping[str, Any]:
        return {}

    def resources(self, stack: str) -> Sequence[Mapping[str, Any]]:
        return ()


def changed(sections: Sections, changes: Sections) -> dict[str, Any]:
    result = {name: dict(values) for name, values in deepcopy(dict(sections)).items()}
    for section, values in changes.items():
        result[section] = {**result.get(section, {}), **values}
    return result


def planned(sections: Sections, root: Path) -> StackAt:
    """The stack with these values, planned by the planner's command line."""
    file = root / "Pulumi.h200.yaml"
    file.write_text(yaml.safe_dump({"config": {f"{NAMESPACE}{key}": value for key, value in sections.items()}}))
    for name, lock in LOCKS.items():
        (root / name).write_text(lock)
    return read_stacks(root, {file.name: probe.planned(root, file.name, planner)})[file.name]


def report_of(case: str, root: Path) -> Report:
    deployed = changed(read_sections(stack_file("h200", PROGRAM)), DEPLOYED)
    sides = planned(deployed, root), planned(changed(deployed, PREVIEWS[case].sections), root)
    run = read_events(json.loads((EVENTS / f"{case}.json").read_text()), failed=PREVIEWS[case].fails)
    change = previewed("Pulumi.h200.yaml", sides[1], run, Described(*sides), NOW)
    return Report(base="", head="f3c1a90", stacks=[change])


def report_of_block(root: Path) -> Report:
    """The report of `aws-h200`, which nothing has deployed yet."""
    proposed = planned(read_sections(stack_file("aws-h200", PROGRAM)), root)
    run = read_events(json.loads((EVENTS / f"{BLOCK}.json").read_text()))
    return Report(base="", head="f3c1a90", stacks=[previewed("Pulumi.aws-h200.yaml", proposed, run, Undeployed(), NOW)])


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are beside the stack file, in the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", PREVIEWS)
def test_a_preview_reads_as_reviewed(case: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    compare(case, report_of(case, tmp_path), pytestconfig)


def test_a_preview_says_what_is_left_of_a_capacity_block(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    compare(BLOCK, report_of_block(tmp_path), pytestconfig)
    assert "of serving before the block ends" in terminal(report_of_block(tmp_path))


def compare(case: str, report: Report, pytestconfig: pytest.Config) -> None:
    written = markdown(report)
    golden = GOLDEN / f"{case}.md"
    if pytestconfig.getoption("--regenerate-golden"):
        golden.write_text(written)
    assert written.startswith(PREVIEW_MARKER)
    assert len(written) < LIMIT
    assert written == golden.read_text()


def test_a_terminal_says_the_same(tmp_path: Path) -> None:
    said = terminal(report_of("preview-context-doubled", tmp_path))
    for words in ("serving stops for about 9 min", "nothing is downloaded", "update  Deployment server"):
        assert words in said
    assert "`" not in said.partition("advisory")[0]
