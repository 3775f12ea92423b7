"""Pulumi's Automation API drives the lab's engine."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pulumi
import pytest
from pulumi import automation
from pulumi_kubernetes.core.v1 import ConfigMap

from lab.site import Site
from tests.lab.kubectl import Kubectl


def program() -> None:
    """A program with one ConfigMap."""
    made = ConfigMap("made", metadata={"namespace": "default"}, data={"text": "hello"})
    pulumi.export("config_map", made.metadata["name"])


@pytest.fixture
def stack(site: Site, environment: dict[str, str], tmp_path: Path) -> Iterator[automation.Stack]:
    """A stack with a function of this process as its program."""
    options = automation.LocalWorkspaceOptions(
        work_dir=str(tmp_path),
        env_vars=environment,
        pulumi_command=automation.PulumiCommand(str(site.directory)),
    )
    name = f"test-{uuid.uuid4().hex[:8]}"
    made = automation.create_or_select_stack(name, project_name="automation", program=program, opts=options)
    yield made
    made.destroy()
    made.workspace.remove_stack(name)


def test_a_stack_is_previewed_taken_up_and_destroyed(stack: automation.Stack, kubectl: Kubectl) -> None:
    preview = stack.preview()
    assert preview.change_summary == {automation.OpType.CREATE: 2}
    up = stack.up()
    name = up.outputs["config_map"].value
    assert kubectl.get("configmap", name, "-n", "default")["data"] == {"text": "hello"}
    assert stack.up(expect_no_changes=True).summary.result == "succeeded"
    stack.destroy()
    assert kubectl("get", "configmap", name, "-n", "default", "--ignore-not-found") == ""
