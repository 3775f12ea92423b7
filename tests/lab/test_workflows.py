"""The committed workflows, run for real: a pull request, a push, a merge, a promotion and a drift.

The stacks `h200-staging` and `h200` on simulated nodes, with digests and locks that are made up.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.build.cache import ensure
from lab.build.pieces import ACTIONLINT_PIECE
from lab.cluster.simulated import SimulatedNodes
from lab.project import Project
from lab.site import CHECKOUT, Site
from review.markdown import MARKER, PREVIEW_MARKER
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import committed_stack, on_nodes_of
from tests.lab.workflows import NAME, Actions
from tests.review_cases import LOCKS, NEW_COMMIT
from tests.unit.review.github_double import GitHub, served

pytestmark = on_nodes_of("8xh200")

STAGING, PRODUCTION = "heavylift-staging", "heavylift-production"
PINNED = {
    "stage": {"image": f"python:3.12-slim@sha256:{'1' * 64}", "lock": "deployed.lock.json"},
    "engine": {"image": f"vllm/vllm-openai:v0.33.0@sha256:{'2' * 64}"},
    "weights": {"verify": "full"},
}
"""What the policies of production ask for."""


@pytest.fixture(scope="module")
def github() -> GitHub:
    return GitHub()


@pytest.fixture(scope="module")
def staging(
    site: Site, settings: dict[str, str], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """Both stacks taken up from one git repository; the namespaces and nodes are removed in the end."""
    directory = tmp_path_factory.mktemp("workflows")
    with (
        SimulatedNodes(site).added("2x8h200"),
        committed_stack("h200-staging", STAGING, directory, settings, kubectl) as staging,
    ):
        production = Project(staging.directory, staging.environment, "h200")
        created = production.pulumi("stack", "init", "h200")
        assert created.status == 0, created
        production.configure(cluster={"namespace": PRODUCTION})
        for name, text in LOCKS.items():
            (staging.directory / name).write_text(text)
        try:
            for project in (staging, production):
                project.configure(**PINNED)
                up = project.up()
                assert up.status == 0, up
            yield staging
        finally:
            destroyed = production.destroy()
            assert destroyed.status == 0, destroyed
            kubectl("delete", "namespace", PRODUCTION, "--ignore-not-found")


@pytest.fixture(scope="module")
def actions(staging: Project, github: GitHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actions]:
    """The stacks' repository with the committed workflows, on its branch main."""
    with served(github) as api:
        actions = Actions(staging.directory, tmp_path_factory.mktemp("actions"), staging.environment, api, github.token)
        actions.git("init", "--quiet", "--initial-branch=main")
        actions.git("remote", "add", "origin", f"https://github.com/{NAME}")
        actions.commit("both stacks run this")
        yield actions


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("", "", ""),
        ("needs: report", "needs: repor", "needs job"),
        ("steps.report.outputs", "steps.reprot.outputs", "is not defined"),
        ("type: string", "type: text", "invalid value"),
    ],
)
def test_actionlint_finds_nothing_and_would_find_faults(old: str, new: str, finding: str, tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / ".github", tmp_path / ".github")
    (tmp_path / ".git").mkdir()  # actionlint looks for the root of a repository
    changed = tmp_path / ".github" / "workflows" / "up.yml"
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, new) if old else changed.read_text())
    linted = [str(ensure(ACTIONLINT_PIECE) / "actionlint"), "-no-color"]
    ended = subprocess.run(linted, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode != 0, finding in ended.stdout) == (bool(old), True), ended


def bodies(github: GitHub) -> dict[str, str]:
    """The comments by their first line."""
    return {comment["body"].splitlines()[0]: comment["body"] for comment in github.comments}


def assert_succeeded(ended: "subprocess.CompletedProcess[str]") -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_from_a_pull_request_to_the_promotion(actions: Actions, staging: Project, github: GitHub) -> None:
    actions.git("checkout", "--quiet", "-b", "another-context")
    staging.configure(engine={"max_model_len": 65536})
    actions.commit("halve the context of staging")
    assert_succeeded(actions.pull_request(7, "another-context"))
    assert set(bodies(github)) == {MARKER, PREVIEW_MARKER}
    assert "context 131,072 → 65,536" in bodies(github)[MARKER]
    assert "serving stops for about 9 min" in bodies(github)[PREVIEW_MARKER]

    staging.configure(model={"revision": NEW_COMMIT}, stage={"lock": "proposed.lock.json"})
    actions.commit("take another revision")
    assert_succeeded(actions.pull_request(7, "another-context"))
    assert len(github.comments) == 2
    assert all(actions.git("rev-parse", "another-context")[:7] in body for body in bodies(github).values())
    assert "stages 595.2 GB first" in bodies(github)[PREVIEW_MARKER]
    assert "chat_template.jinja" in bodies(github)[PREVIEW_MARKER]

    merged = actions.merged("another-context")
    assert_succeeded(merged)
    assert staging.outputs()["revision"] == NEW_COMMIT
    production = Project(staging.directory, staging.environment, "h200")
    assert production.outputs()["revision"] != NEW_COMMIT

    github.comments.clear()
    actions.git("checkout", "--quiet", "-b", "promotion")
    promote = [sys.executable, "-m", "config", "promote", "h200-staging", "h200"]
    promoted = subprocess.run(promote, cwd=actions.repository, capture_output=True, text=True, check=False)
    assert promoted.returncode == 0, promoted.stderr
    actions.commit("promote")
    assert_succeeded(actions.pull_request(8, "promotion"))
    preview = bodies(github)[PREVIEW_MARKER]
    assert "### ✅ `h200` fits" in preview
    # Nothing answers on simulated nodes.
    assert "whether the server of h200-staging answered is unknown" in preview
    assert "h200-staging runs another release" not in preview


def test_a_fork_gets_the_plan_only(actions: Actions, staging: Project, github: GitHub) -> None:
    github.comments.clear()
    actions.git("checkout", "--quiet", "-B", "of-a-fork", "main")
    staging.configure(engine={"max_model_len": 32768})
    actions.commit("a fork's change")
    assert_succeeded(actions.pull_request(9, "of-a-fork", fork=True))
    assert set(bodies(github)) == {MARKER}


def test_a_refused_preview_fails_after_it_is_posted(actions: Actions, staging: Project, github: GitHub) -> None:
    github.comments.clear()
    actions.git("checkout", "--quiet", "-B", "tag", "main")
    staging.configure(engine={"image": "vllm/vllm-openai:v0.33.0"})
    actions.commit("name a tag")
    ended = actions.pull_request(10, "tag")
    assert ended.returncode != 0
    assert "is refused" in bodies(github)[PREVIEW_MARKER]
    assert "images-by-digest" in bodies(github)[PREVIEW_MARKER]


def test_drift_opens_an_issue_that_is_closed_when_it_is_gone(
    actions: Actions, staging: Project, github: GitHub, kubectl: Kubectl
) -> None:
    actions.git("checkout", "--quiet", "main")

    def look() -> "subprocess.CompletedProcess[str]":
        return actions.run("workflow_dispatch", "drift", {}, "--matrix", "stack:h200-staging")

    assert_succeeded(look())
    assert github.issues == []

    [deployment] = kubectl.get("deployments", "-n", STAGING)["items"]
    name = f"deployment/{deployment['metadata']['name']}"
    kubectl("scale", name, "--replicas=0", "-n", STAGING)
    assert look().returncode != 0
    [issue] = github.issues
    assert (issue["state"], issue["title"]) == ("open", "Drift of h200-staging")
    assert "spec.replicas" in issue["body"]

    healed = staging.up("--refresh")
    assert healed.status == 0, healed
    ended = look()
    assert issue["state"] == "closed", ended.stdout
