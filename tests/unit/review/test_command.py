"""`python -m review plan`, run in a git repository with the program."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.program import PROGRAM
from tests.unit.review.github_double import GitHub, served

PACKAGES = ("config", "engines", "planner", "promotion", "review", "stager")
GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(program: Path, *arguments: str) -> str:
    ended = subprocess.run(
        ["git", *arguments], cwd=program, check=True, capture_output=True, text=True, env={**os.environ, **GIT}
    )
    return ended.stdout


def review(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "review", "plan", *arguments],
        cwd=program,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=300,  # a command that waits forever fails the test
    )


def stacks_of(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {stack["stack"]: stack for stack in json.loads(ended.stdout)["stacks"]}


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the program and its stacks, in one commit."""
    program = tmp_path_factory.mktemp("committed")
    for package in PACKAGES:
        shutil.copytree(PROGRAM / package, program / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (PROGRAM / ".gitignore", *PROGRAM.glob("Pulumi*.yaml")):
        shutil.copy(file, program)
    git(program, "init", "--quiet", "--initial-branch=main")
    git(program, "add", ".")
    git(program, "commit", "--quiet", "--message=base")
    return program


@pytest.fixture
def program(committed: Path, tmp_path: Path) -> Path:
    """A clone of it."""
    git(tmp_path, "clone", "--quiet", str(committed), "clone")
    return tmp_path / "clone"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_new_changed_and_deleted_stacks_of_the_working_tree(program: Path) -> None:
    edit(program / "Pulumi.h200.yaml", "gpus_per_node: 8", "gpus_per_node: 4")
    for name in ("new", "no name"):
        shutil.copy(program / "Pulumi.b200.yaml", program / f"Pulumi.{name}.yaml")
    (program / "Pulumi.h100x16.yaml").unlink()
    ended = review(program, "--base", "main", "--format", "json")
    assert ended.returncode == 1, ended.stderr
    stacks = stacks_of(ended)
    assert {name: stack["verdict"] for name, stack in stacks.items()} == {
        "h200": "rejected",
        "new": "fits",
        "no name": "invalid",
        "h100x16": "deleted",
    }
    assert stacks["h200"]["before"]["plan"]["verdict"] == "fits"


def test_each_side_is_planned_by_the_planner_of_its_own_commit(program: Path) -> None:
    git(program, "checkout", "--quiet", "-b", "branch")
    edit(program / "engines" / "plan.py", '"context": self.context', '"context": 7')
    git(program, "commit", "--quiet", "--all", "--message=another planner")
    ended = review(program, "--base", "main", "--format", "json")
    contexts = {
        name: (stack["before"]["plan"]["context"], stack["after"]["plan"]["context"])
        for name, stack in stacks_of(ended).items()
    }
    assert contexts["h200"] == (262144, 7)
    assert contexts.keys() == {file.name.split(".")[1] for file in program.glob("Pulumi.*.yaml")}


def test_a_change_of_main_since_the_branch_is_not_the_branch_s(program: Path) -> None:
    git(program, "checkout", "--quiet", "-b", "branch")
    git(program, "commit", "--quiet", "--allow-empty", "--message=branch")
    git(program, "checkout", "--quiet", "main")
    edit(program / "Pulumi.h200.yaml", "max_model_len: 262144", "max_model_len: 131072")
    git(program, "commit", "--quiet", "--all", "--message=main goes on")
    git(program, "checkout", "--quiet", "branch")
    ended = review(program, "--base", "main")
    assert ended.returncode == 0
    assert ended.stdout.startswith("No stack's plan differs")
    assert review(program, "--base", "main", "--format", "markdown").stdout == ""


def test_the_merge_of_a_pull_request_is_called_by_the_commit_of_its_branch(program: Path) -> None:
    """GitHub checks out a merge that is in nobody's history."""
    git(program, "checkout", "--quiet", "-b", "branch")
    (program / "Pulumi.h200.yaml").unlink()
    git(program, "commit", "--quiet", "--all", "--message=branch")
    tip = git(program, "rev-parse", "HEAD")
    git(program, "checkout", "--quiet", "main")
    git(program, "merge", "--quiet", "--no-ff", "--message=merge", "branch")
    report = json.loads(review(program, "--base", "HEAD^1", "--format", "json").stdout)
    assert tip.startswith(report["head"])
    assert [stack["stack"] for stack in report["stacks"]] == ["h200"]


def test_where_the_planner_of_the_base_does_not_run_the_report_says_so(program: Path) -> None:
    (program / "planner" / "__main__.py").write_text("raise RuntimeError('too old')\n")
    git(program, "commit", "--quiet", "--all", "--message=no planner")
    git(program, "checkout", "--quiet", "-b", "branch")
    git(program, "checkout", "HEAD~1", "--", "planner")
    edit(program / "Pulumi.h200.yaml", "max_model_len: 262144", "max_model_len: 131072")
    git(program, "commit", "--quiet", "--all", "--message=with planner")
    ended = review(program, "--base", "main", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    assert stacks_of(ended).keys() == {"h200"}
    assert json.loads(ended.stdout)["notes"] == ["before: the planner does not run: RuntimeError: too old"]


def test_a_stack_file_beside_tests_is_compared_like_any_other(program: Path) -> None:
    """Of the base, the Python that no planner imports is left out, and nothing else."""
    folder = program / "tests"
    folder.mkdir()
    for name in ("changed", "same"):
        shutil.copy(program / "Pulumi.h200.yaml", folder / f"Pulumi.{name}.yaml")
    (folder / "test_a.py").write_text("")
    git(program, "add", ".")
    git(program, "commit", "--quiet", "--message=stacks of tests")
    edit(folder / "Pulumi.changed.yaml", "gpus_per_node: 8", "gpus_per_node: 4")
    ended = review(program, "--base", "main", "--format", "json")
    assert {name: stack["before"]["plan"]["verdict"] for name, stack in stacks_of(ended).items()} == {
        "tests/changed": "fits"
    }


def test_a_planner_gets_nothing_of_the_environment(program: Path) -> None:
    with (program / "planner" / "__init__.py").open("a") as module:
        module.write("import os, pathlib\npathlib.Path('seen').write_text(' '.join(os.environ))\n")
    assert review(program, "--base", "main", GITHUB_TOKEN="a-token").returncode == 0
    assert set((program / "seen").read_text().split()) <= {
        "PATH",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "PYDANTIC_DISABLE_PLUGINS",
    }


def test_a_second_push_edits_the_comment_of_the_first(program: Path, tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    github = GitHub()
    with served(github) as address:
        workflow = {
            "GITHUB_TOKEN": github.token,
            "GITHUB_REPOSITORY": "acme/stacks",
            "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_API_URL": address,
        }
        edit(program / "Pulumi.h200.yaml", "max_model_len: 262144", "max_model_len: 131072")
        first = review(program, "--base", "main", "--post", **workflow)
        edit(program / "Pulumi.h200.yaml", "gpus_per_node: 8", "gpus_per_node: 4")
        second = review(program, "--base", "main", "--post", **workflow)
    assert (first.returncode, second.returncode) == (0, 1)
    assert (first.stderr, second.stderr) == ("review plan: posted a comment\n", "review plan: edited the comment\n")
    (comment,) = github.comments
    assert "is rejected" in comment["body"]
    assert (tmp_path / "summary.md").read_text().endswith(comment["body"])


def test_posting_outside_of_a_workflow_still_prints_the_report(program: Path) -> None:
    (program / "Pulumi.h200.yaml").unlink()
    ended = review(program, "--base", "main", "--post", GITHUB_TOKEN="")
    assert ended.returncode == 2
    assert "h200 has no stack file any more" in ended.stdout
    assert "GITHUB_TOKEN is not set" in ended.stderr


@pytest.mark.parametrize("base", ["no-such-branch", "--upload-pack=x", ""])
def test_an_unknown_base_is_one_line(program: Path, base: str) -> None:
    ended = review(program, f"--base={base}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"review plan: --base {base}: git knows no such commit")


def test_a_base_that_cannot_be_unpacked_is_one_line(program: Path, tmp_path: Path) -> None:
    tar = tmp_path / "bin" / "tar"
    tar.parent.mkdir()
    tar.write_text("#!/bin/sh\nexit 1\n")  # as on a full disk, before it has read the whole archive
    tar.chmod(0o755)
    ended = review(program, "--base", "main", PATH=f"{tar.parent}{os.pathsep}{os.environ['PATH']}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("review plan: --base main: git archive cannot extract ")


def test_outside_of_a_repository_it_says_what_is_missing(committed: Path, tmp_path: Path) -> None:
    shutil.copytree(committed, tmp_path / "copy", ignore=shutil.ignore_patterns(".git"))
    ended = review(tmp_path / "copy", "--base", "main", GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "not a git repository" in ended.stderr
