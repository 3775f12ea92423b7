"""Programs in Python and YAML that use a local component package through `pulumi package add`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.project import NOT_COPIED, Project
from tests.lab.conftest import PROGRAMS
from tests.lab.kubectl import Kubectl


@pytest.fixture(params=["python", "yaml"])
def user(request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str]) -> Iterator[Project]:
    """A program in each language with the package added."""
    package = tmp_path / "greeting"
    shutil.copytree(PROGRAMS / "greeting", package, ignore=NOT_COPIED)
    program = f"greeting_in_{request.param}"
    project = Project.copy(PROGRAMS / program, tmp_path / program, environment, "test")
    added = project.pulumi("package", "add", "../greeting")
    assert added.status == 0, added
    yield project
    destroyed = project.destroy("--remove")
    assert destroyed.status == 0, destroyed


def test_a_program_uses_a_component_of_a_local_package(user: Project, kubectl: Kubectl) -> None:
    up = user.up()
    assert up.status == 0, up
    name = user.outputs()["config_map"]
    assert kubectl.get("configmap", name, "-n", "default")["data"] == {"text": "hello"}

    preview = user.preview("--expect-no-changes", "--diff")
    assert preview.status == 0, preview

    destroyed = user.destroy()
    assert destroyed.status == 0, destroyed
    assert kubectl("get", "configmap", name, "-n", "default", "--ignore-not-found") == ""
