"""The controller for servers over several nodes, where a stack asks for it."""

import pytest

from components.leader_worker_set_controller import LeaderWorkerSetController
from config.stack.file import read_sections, stack_file
from tests.program import PROGRAM, run_program
from tests.recording_engine import record


def test_every_object_waits_for_those_that_it_needs() -> None:
    recording = record(lambda: LeaderWorkerSetController("lws", {}))
    by_kind = {each.type.rsplit(":", 1)[1]: each for each in recording.registrations}
    definition = by_kind["CustomResourceDefinition"].urn
    assert definition in by_kind["Deployment"].depends_on
    assert by_kind["Deployment"].urn in by_kind["MutatingWebhookConfiguration"].depends_on
    deployment = by_kind["Deployment"]
    assert deployment.type == "kubernetes:apps/v1:Deployment"
    (container,) = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.k8s.io/lws/lws:v0.8.0"
    assert by_kind["Namespace"].type == "kubernetes:core/v1:Namespace"


@pytest.mark.parametrize("stack", ["h100x16", "aws-h100x16"])
def test_a_stack_installs_it_only_where_it_says_so(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = read_sections(stack_file(stack, PROGRAM))
    asked = "leaderworkerset" in sections["nodes"].get("install", [])
    installed = run_program(monkeypatch, stack).of_type(":LeaderWorkerSetController")
    assert bool(installed) is asked is (stack == "aws-h100x16")
