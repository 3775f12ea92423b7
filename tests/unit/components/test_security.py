"""What the Jobs' pods may do: level `restricted` for claims, root only where the stack or a hostPath says so.

The expected fields are those of kubernetes.io/docs/concepts/security/pod-security-standards; the lab asks a real API
server.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from components.arguments import Placement, WeightSource
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from config.stack import arguments
from tests.recording_engine import record
from tests.unit.components.samples import H200, KIMI, ON_H200

ALLOWED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"}
ALLOWED_VOLUMES |= {"secret"}


def pods(
    volume: WeightSource = ON_H200, security: arguments.Security | None = None, placement: Placement = H200
) -> list[dict[str, Any]]:
    """The pods of the stage Job and the prune Job."""

    def program() -> None:
        given: Any = {
            "namespace": "serving",
            "model": KIMI,
            "volume": volume,
            "placement": placement,
            "image": "python:3.12-slim",
            **({"security": security} if security else {}),
        }
        stage = WeightStage("stage", given)
        more: Any = {"keep_newest": 1, "program": stage.program, "owner": stage.owner}
        WeightPrune("prune", given | more)

    made = [job.inputs["spec"]["template"]["spec"] for job in record(program, stack="h200").of_type(":Job")]
    assert len(made) == 2
    return made


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """What the level `restricted` would refuse of a pod."""
    context = pod.get("securityContext", {})
    if not context.get("runAsNonRoot") or context.get("runAsUser") == 0:
        yield "runAsNonRoot"
    if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        own = container["securityContext"]
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{container['name']}: allowPrivilegeEscalation"
        if own["capabilities"]["drop"] != ["ALL"] or own["capabilities"].get("add"):
            yield f"{container['name']}: capabilities"
    for volume in pod["volumes"]:
        if not volume.keys() - {"name"} <= ALLOWED_VOLUMES:
            yield f"volume {volume['name']}"


def test_the_pods_of_a_claim_meet_the_level_restricted() -> None:
    for pod in pods():
        assert list(violations(pod)) == []
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 2000


def test_the_group_owns_the_claim_without_touching_each_file_at_each_start() -> None:
    """`Always` would change the times of every file, by which the quick check judges it."""
    for pod in pods(security={"user": 1000, "group": 3000}):
        context = pod["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (1000, 3000, 3000)
        assert context["fsGroupChangePolicy"] == "OnRootMismatch"


def test_everything_but_the_volumes_is_read_only_and_python_finds_a_home() -> None:
    for pod in pods():
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert {"name": "HOME", "value": "/tmp"} in container["env"]
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


@pytest.mark.parametrize(
    ("volume", "security", "context"),
    [
        ({"host_path": "/mnt/nvme"}, None, None),
        (ON_H200, {"user": 0}, {"runAsUser": 0, "runAsGroup": 0}),
        ({"host_path": "/mnt/nvme"}, {"user": 0, "group": 5}, {"runAsUser": 0, "runAsGroup": 5}),
    ],
)
def test_root_writes_to_a_directory_of_any_user(
    volume: WeightSource, security: arguments.Security | None, context: dict[str, int] | None
) -> None:
    for pod in pods(volume, security):
        assert pod.get("securityContext") == context
        assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}


def test_another_user_of_a_directory_lacks_only_the_volume_of_the_level_restricted() -> None:
    for pod in pods({"host_path": "/mnt/nvme"}, {"user": 2000}):
        assert list(violations(pod)) == ["volume weights"]
