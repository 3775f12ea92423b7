"""A promotion is judged by the engine's own history, on a file backend and on S3. No cluster is asked.

The program is the shipped one up to its first resource; then it exports what a served model would.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.engine import Engine
from lab.project import Answer, Project
from lab.site import CHECKOUT
from tests.stager_faults.s3_server import BUCKET, running_s3

pytestmark = pytest.mark.xdist_group("promotion")

PROGRAM = """
import os

import pulumi

from config.stack.from_pulumi import running_stack
from promotion.admission import admit_release

stack = running_stack()
admit_release(stack)
pulumi.export("answered", os.environ.get("ANSWERED", "yes"))
pulumi.export("release", {"image": stack.config.engine.image})
"""
CLUSTER = {"HEAVYLIFT_KUBECONFIG": str(CHECKOUT / "tests" / "kubeconfig.yaml"), "HEAVYLIFT_KUBE_CONTEXT": "test"}
OTHER = {"revision": "a" * 40}


@pytest.fixture
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings of an engine with its state in a directory; with the parameter `s3`, on an S3 server."""
    engine = Engine(tmp_path / "engine")
    engine.install()
    settings = {**engine.settings, **CLUSTER}
    if getattr(request, "param", "file") == "file":
        yield settings
        return
    with running_s3(tmp_path / "s3") as server:
        place = f"endpoint={server.url.removeprefix('http://')}&disableSSL=true&s3ForcePathStyle=true&region=us-east-1"
        yield {**settings, **server.environment, "PULUMI_BACKEND_URL": f"s3://{BUCKET}?{place}"}


@pytest.fixture
def staging(environment: dict[str, str], tmp_path: Path) -> Project:
    """The stack `h200-staging` in a git checkout of its own, all of it committed."""
    project = Project.copy(CHECKOUT, tmp_path / "program", environment, "h200-staging")
    (project.directory / "__main__.py").write_text(PROGRAM)
    git(project, "init", "--quiet")
    commit(project)
    return project


@pytest.fixture
def production(staging: Project) -> Project:
    """The stack `h200` in the same checkout, which takes only what is proven."""
    project = Project(staging.directory, staging.environment, "h200")
    created = project.pulumi("stack", "init", "h200")
    assert created.status == 0, created
    project.configure(promotion=None)
    project.configure(promotion={"from": "h200-staging"})
    commit(project)
    return project


def git(project: Project, *words: str) -> None:
    identity = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *words], cwd=project.directory, env=environment, check=True)


def commit(project: Project) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "a change")


def changed(project: Project, **model: str) -> None:
    project.configure(model=model)
    commit(project)


def assert_refused(answer: Answer, *reasons: str) -> None:
    assert answer.status != 0, answer
    assert "the release is not proven for h200, nothing was created:" in answer.output
    assert all(reason in answer.output for reason in reasons), answer


def test_only_a_release_that_ran_in_the_other_stack_is_taken_up(staging: Project, production: Project) -> None:
    preview = production.preview()
    assert preview.status == 0, preview
    assert "the release is not proven for h200, `pulumi up` will refuse it" in preview.output
    assert_refused(production.up(), "h200-staging was never taken up", "allow_unproven: true")

    production.configure(promotion={"soak": "24h"})
    (staging.directory / "untracked").write_text("")
    assert staging.up(ANSWERED="unknown: 403").status == 0
    assert_refused(
        production.up(),
        "uncommitted changes",
        "answered is unknown: 403",
        "h200-staging has run it for",
        "expected 24h",
    )

    production.configure(promotion={"soak": None})
    commit(production)
    assert staging.up().status == 0
    taken = production.up()
    assert taken.status == 0, taken
    assert "release: the stack h200-staging has run this release for" in taken.output

    changed(staging, **OTHER)
    assert staging.up().status == 0
    again = production.up()
    assert again.status == 0, again
    assert "release: the stack h200 ran this release before" in again.output

    changed(production, revision="b" * 40)
    assert_refused(production.up(), "h200-staging runs another release: model.revision differ")


@pytest.mark.parametrize("environment", ["s3"], indirect=True)
def test_the_history_is_read_from_s3_too(staging: Project, production: Project) -> None:
    assert staging.up().status == 0
    production.configure(promotion={"soak": "24h"})
    assert_refused(production.up(), "h200-staging has run it for", "expected 24h")
    production.configure(promotion={"soak": None})
    taken = production.up()
    assert taken.status == 0, taken
    assert "release: the stack h200-staging has run this release for" in taken.output
