"""The workflow that comments on pull requests: what it may do, and that its command exists."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from review.__main__ import parser
from tests.program import PROGRAM

WORKFLOWS = sorted((PROGRAM / ".github" / "workflows").glob("*.yml"))
ZIZMOR = Path(sys.prefix) / "bin" / "zizmor"


def audit(workflow: Path) -> subprocess.CompletedProcess[str]:
    """What zizmor, an auditor of workflows, finds without asking GitHub."""
    command = [str(ZIZMOR), "--offline", "--no-progress", "--persona=pedantic", str(workflow)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_an_auditor_finds_nothing(workflow: Path) -> None:
    ended = audit(workflow)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("pull_request:", "pull_request_target:", "dangerous-triggers"),
        ("persist-credentials: false", "clean: true", "artipacked"),
        ("--base HEAD^1", "--base ${{ github.head_ref }}", "template-injection"),
        ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7", "unpinned-uses"),
    ],
)
def test_the_auditor_would_find_it(old: str, new: str, finding: str, tmp_path: Path) -> None:
    text = WORKFLOWS[0].read_text()
    assert old in text
    changed = tmp_path / ".github" / "workflows" / "changed.yml"
    changed.parent.mkdir(parents=True)
    changed.write_text(text.replace(old, new))
    ended = audit(changed)
    assert ended.returncode != 0
    assert finding in ended.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_rights_and_actions_are_pinned(workflow: Path) -> None:
    read = yaml.safe_load(workflow.read_text())
    assert read["permissions"] == {}
    for job in read["jobs"].values():
        assert job["timeout-minutes"] <= 15
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}"))


def test_the_command_of_the_workflow_is_one_that_there_is() -> None:
    (line,) = [line for line in WORKFLOWS[0].read_text().splitlines() if "python -m review" in line]
    options = parser().parse_args(shlex.split(line.partition("-m review")[2]))
    assert (options.base, options.post) == ("HEAD^1", True)
