"""The workflows: what they may do, and that their commands exist. tests/lab/test_workflows.py runs them."""

import re
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml

from review.__main__ import parser
from tests.program import PROGRAM

WORKFLOWS = sorted((PROGRAM / ".github" / "workflows").glob("*.yml"))
REVIEW = PROGRAM / ".github" / "workflows" / "review.yml"
PROGRAMS = Path(sys.prefix) / "bin"
Jobs = dict[str, dict[str, Any]]


def jobs_of(workflow: Path) -> Jobs:
    jobs: Jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return jobs


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs_of(workflow).values() for step in job.get("steps", ())]


def audit(workflow: Path) -> subprocess.CompletedProcess[str]:
    """What zizmor, an auditor of workflows, finds without asking GitHub."""
    command = [str(PROGRAMS / "zizmor"), "--offline", "--no-progress", "--persona=pedantic", str(workflow)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_an_auditor_finds_nothing(workflow: Path) -> None:
    ended = audit(workflow)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_is_of_githubs_schema(workflow: Path) -> None:
    command = [str(PROGRAMS / "check-jsonschema"), "--builtin-schema=vendor.github-workflows", str(workflow)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
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
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    for job in jobs_of(workflow).values():
        assert "steps" not in job or job["timeout-minutes"] <= 360
        assert job.get("uses", "./").startswith("./")
    for step in steps_of(workflow):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_no_expression_is_in_a_script_and_no_other_checkout_keeps_the_token(workflow: Path) -> None:
    for step in steps_of(workflow):
        assert "${{" not in step.get("run", "")
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def commands_of(workflow: Path) -> list[Namespace]:
    """The commands of `python -m review`, parsed."""
    scripts = "\n".join(step.get("run", "") for step in steps_of(workflow))
    commands = re.findall(r"-m review (.*?)(?:$| > )", re.sub(r"\s*\\\n\s*", " ", scripts), re.MULTILINE)
    return [parser().parse_args(shlex.split(command.replace("$STACK", "h200"))) for command in commands]


def test_the_commands_are_those_that_there_are() -> None:
    found = {workflow.stem: [options.command for options in commands_of(workflow)] for workflow in WORKFLOWS}
    assert found == {"deploy": [], "drift": ["drift"], "review": ["plan", "preview"], "up": ["preview", "preview"]}


def test_a_pull_request_gets_its_comments() -> None:
    plan, preview = commands_of(REVIEW)
    assert (plan.base, plan.post, preview.base, preview.post) == ("HEAD^1", True, "HEAD^1", True)


def test_only_the_jobs_of_an_environment_get_a_token_for_a_role_and_forks_run_none() -> None:
    jobs = {f"{file.stem}.{name}": job for file in WORKFLOWS for name, job in jobs_of(file).items() if "steps" in job}
    with_role = {name for name, job in jobs.items() if "id-token" in job["permissions"]}
    assert with_role == {name for name, job in jobs.items() if "environment" in job}
    assert "review.plan" not in with_role
    assert "head.repo.full_name == github.repository" in jobs["review.preview"]["if"]


def test_only_the_job_of_a_stacks_own_environment_writes() -> None:
    jobs = jobs_of(REVIEW.parent / "up.yml")
    writing = [name for name, job in jobs.items() if any("pulumi up" in step.get("run", "") for step in job["steps"])]
    assert writing == ["up"]
    assert jobs["up"]["environment"] == "${{ inputs.stack }}"
    assert any("--expect" in step.get("run", "") for step in jobs["up"]["steps"])
