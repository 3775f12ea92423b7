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
REVIEW = PROGRAM / ".github" / "workflows" / "review.yml"
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
    text = REVIEW.read_text()
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
        assert job["timeout-minutes"] <= 360
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_no_expression_is_in_a_script_and_no_other_checkout_keeps_the_token(workflow: Path) -> None:
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if "actions/checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_the_commands_of_a_workflow_are_those_that_there_are(workflow: Path) -> None:
    scripts = [
        step.get("run", "") for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]
    ]
    commands = re.findall(r"-m review (.*?)(?:$|\)$|\n\n| > )", "\n".join(scripts).replace("\n  ", " "), re.MULTILINE)
    assert commands
    for command in commands:
        parser().parse_args(shlex.split(command.replace("$STACK", "h200")))


def test_a_pull_request_gets_its_comment() -> None:
    (line,) = [line for line in REVIEW.read_text().splitlines() if "python -m review" in line]
    options = parser().parse_args(shlex.split(line.partition("-m review")[2]))
    assert (options.base, options.post) == ("HEAD^1", True)


def test_only_the_job_of_a_stacks_own_environment_writes() -> None:
    jobs = yaml.safe_load((REVIEW.parent / "deploy.yml").read_text())["jobs"]
    writing = [name for name, job in jobs.items() if any("pulumi up" in step.get("run", "") for step in job["steps"])]
    assert writing == ["up"]
    assert jobs["up"]["environment"] == "${{ inputs.stack }}"
    assert any("--expect" in step.get("run", "") for step in jobs["up"]["steps"])
