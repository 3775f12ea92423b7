"""The lab's engine waits for Jobs, creates dependents afterwards, and enforces policy packs."""

import json

from lab.project import Project
from lab.site import Site
from tests.lab.conftest import PROGRAMS, AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import on_nodes_of

pytestmark = on_nodes_of("8xh200")


def test_a_deployment_on_gpus_comes_only_after_a_job_that_really_wrote_a_file(
    nodes: AddNodes, gate: Project, kubectl: Kubectl, site: Site
) -> None:
    nodes("8xh200")
    up = gate.up(GATE_COMMAND="sleep 3; echo staged > /disk/weights")
    assert up.status == 0, up
    assert (site.directory / "nodes/real-0/var/lib/gate/weights").read_text() == "staged\n"
    [job] = kubectl.get("jobs")["items"]
    [pod] = kubectl.get("pods", "-l", "app=serve")["items"]
    assert pod["spec"]["nodeName"] == "h200-0"
    assert pod["metadata"]["creationTimestamp"] >= job["status"]["completionTime"]


def test_a_deployment_is_never_made_when_the_job_before_it_fails(
    nodes: AddNodes, gate: Project, kubectl: Kubectl
) -> None:
    nodes("8xh200")
    up = gate.up(GATE_COMMAND="echo disk is broken > /dev/termination-log; exit 1")
    assert up.status != 0
    assert "disk is broken" in up.output
    assert kubectl.get("deployments")["items"] == []


def test_a_mandatory_policy_fails_a_preview(gate: Project) -> None:
    allowed = gate.preview(GATE_COMMAND="true")
    assert allowed.status == 0, allowed
    refused = gate.preview("--policy-pack", str(PROGRAMS / "policy"), GATE_COMMAND="true")
    assert refused.status != 0
    assert "Deployments are not welcome here" in refused.output


def test_the_state_is_in_the_labs_own_file_backend(gate: Project, site: Site) -> None:
    assert json.loads(gate.exported())["deployment"] is not None
    assert list(site.directory.glob("pulumi-state/.pulumi/stacks/gate/test.json"))
