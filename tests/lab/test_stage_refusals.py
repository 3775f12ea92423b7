"""`up` fails about one minute after a stage Job cannot start or end, with the cluster's message: on the real node."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.site import CHECKOUT
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, SECOND, Served, dev_stack, own_stack, pinned
from tests.lab.sharing import with_own_state

# One stack, whose tests build on one another.
pytestmark = pytest.mark.xdist_group("stage refusals")

NAMESPACE = "stage-refusals"
A_MINUTE_AND_ITS_START = 150
"""Seconds; far below the Job's deadline of 900."""


@pytest.fixture(scope="module")
def served(
    lab: Lab, hub: HubClient, kubectl: Kubectl, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One stack for all of these tests. No Job runs after a test."""
    with own_stack(lab, kubectl, settings, hub.url, tmp_path_factory.mktemp("program"), NAMESPACE) as made:
        yield made


def given_up(served: Served, environment: dict[str, str] | None = None) -> str:
    """Returns the error of `up`, and checks that it came in time and that nothing after the Job exists."""
    began = time.monotonic()
    failed = served.project.up(**(environment or {}))
    assert failed.status != 0, failed
    assert time.monotonic() - began < A_MINUTE_AND_ITS_START
    assert served.get("deployments") == []
    return failed.output


def test_a_revision_that_is_not_there_is_refused_at_the_first_attempt(served: Served) -> None:
    served.project.configure(model=pinned("acme/model", "9" * 40))
    words = given_up(served)
    assert "the weights cannot be staged:" in words
    assert f"acme/model has no revision '{'9' * 40}'" in words
    assert len(served.pods("stage")) == 1


def test_an_image_that_cannot_be_pulled_is_told(served: Served) -> None:
    served.project.configure(model=pinned("acme/model", FIRST))
    words = given_up(served, {"HEAVYLIFT_STAGE_IMAGE": "heavylift.lab/nowhere:1"})
    assert "heavylift.lab/nowhere:1" in words
    assert "ErrImagePull" in words or "ImagePullBackOff" in words


def test_a_pod_that_would_not_be_admitted_is_told_before_anything_is_staged_and_the_next_up_serves(
    served: Served, kubectl: Kubectl
) -> None:
    label = "pod-security.kubernetes.io/enforce"
    kubectl("label", "namespace", NAMESPACE, f"{label}=restricted")
    words = given_up(served)
    kubectl("label", "namespace", NAMESPACE, f"{label}-")
    assert f"namespace '{NAMESPACE}' would not take what this stack makes, nothing was created:" in words
    for what in ("the server's pod", "the stage pod"):
        assert f'{what}: pods "' in words
        assert f"{what}: weights of kind host-path need a namespace without this Pod Security level" in words

    up = served.project.up()
    assert up.status == 0, up
    assert "1 of 1 volumes staged" in up.output


def test_what_was_deleted_behind_pulumis_back_is_said_at_once(served: Served, kubectl: Kubectl) -> None:
    kubectl("delete", "jobs,deployments", "--all", "-n", NAMESPACE)
    preview = served.project.preview()
    assert preview.status == 0, preview
    assert "the Job is gone from the cluster" in preview.output
    assert "pulumi up --refresh" in preview.output

    began = time.monotonic()
    failed = served.project.up()
    assert failed.status != 0
    assert time.monotonic() - began < A_MINUTE_AND_ITS_START
    assert "is no longer in namespace" in failed.output
    mended = served.project.up("--refresh")
    assert mended.status == 0, mended
    assert served.ask()


def test_a_cluster_made_anew_under_the_state_is_said_before_anything_is_replaced(
    served: Served, kubectl: Kubectl
) -> None:
    """A state with another identifier and without its objects stands for a cluster made anew at the same address."""
    own = kubectl.get("namespace", "kube-system")["metadata"]["uid"]
    state = served.project.exported()
    file = Path(served.project.directory) / "state.json"
    file.write_text(state.replace(own, "00000000-0000-4000-8000-000000000000"))
    assert served.project.pulumi("stack", "import", "--stack", "dev", "--file", str(file)).status == 0
    kubectl("delete", "jobs,deployments,services,configmaps", "-l", "app.kubernetes.io/instance=dev", "-n", NAMESPACE)

    for refused in (served.project.preview(), served.project.up()):
        assert refused.status != 0, refused
        assert "the stack's state is of a cluster that is gone" in refused.output
        assert "`PULUMI_K8S_DELETE_UNREACHABLE=true pulumi refresh`" in refused.output

    refreshed = served.project.refresh(PULUMI_K8S_DELETE_UNREACHABLE="true")
    assert refreshed.status == 0, refreshed
    namespace = kubectl.get("namespace", NAMESPACE)["metadata"]["uid"]
    up = served.project.up()
    assert up.status == 0, up
    assert kubectl.get("namespace", NAMESPACE)["metadata"]["uid"] == namespace, "what is there is not replaced"
    assert served.ask()
    assert served.project.up("--expect-no-changes").status == 0


def killed_by_ctrl_c(served: Served, when: str, said: Path, **environment: str) -> None:
    """Starts `pulumi up`, and presses Ctrl-C twice when its output has the words `when`."""
    project = served.project
    command = ["pulumi", "up", "--stack", project.stack, "--yes", "--skip-preview", "--non-interactive"]
    with said.open("w") as output:
        up = subprocess.Popen(
            command,
            cwd=project.directory,
            env={**os.environ, **project.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + A_MINUTE_AND_ITS_START
        while when not in said.read_text():
            assert time.monotonic() < deadline, said.read_text()
            assert up.poll() is None, said.read_text()
            time.sleep(0.2)
        os.killpg(up.pid, signal.SIGINT)
        os.killpg(up.pid, signal.SIGINT)
        assert up.wait(timeout=60) != 0


def test_an_update_that_ctrl_c_killed_leaves_no_job_that_the_next_one_does_not_know(
    served: Served, tmp_path: Path
) -> None:
    served.project.configure(model=pinned("acme/model", SECOND))
    nowhere = {"HEAVYLIFT_STAGE_IMAGE": "heavylift.lab/nowhere:1"}
    killed_by_ctrl_c(served, "0 of 1 volumes staged", tmp_path / "said", **nowhere)
    assert len(served.get("jobs")) == 2
    up = served.project.up()
    assert up.status == 0, up
    assert "ran beside the others" not in up.output
    assert [job["status"].get("succeeded") for job in served.get("jobs")] == [1]
    state = json.loads(served.project.exported())["deployment"]
    assert not state.get("pending_operations")


def test_the_jobs_of_a_local_volume_write_as_their_own_user_and_meet_the_level_restricted(
    served: Served, lab: Lab, kubectl: Kubectl, tmp_path: Path
) -> None:
    namespace = f"{NAMESPACE}-local"
    environment = with_own_state(served.project.environment, tmp_path)
    project = dev_stack(CHECKOUT, tmp_path / "program", environment, namespace, pinned("acme/model", FIRST))
    project.configure(weights={"kind": "local", "size": "1Gi"})
    own = Served(project, kubectl, lab, namespace)
    lab.on_node("real-0", "mkdir", "-p", own.root)
    try:
        up = project.up()
        assert up.status == 0, up
        assert own.shell("stat -c %u .heavylift/manifest.json .heavylift/users/*").split() == ["2000", "2000"]
        kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
        [job] = own.get("jobs")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": job["spec"]["template"]["spec"]}
        kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", text=json.dumps(pod))
    finally:
        own.remove()
