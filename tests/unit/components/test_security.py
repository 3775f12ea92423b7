"""What pods may do: level `restricted` for claims, root only for Jobs where the stack or a hostPath says so.

The expected fields are those of kubernetes.io/docs/concepts/security/pod-security-standards; the lab asks a real API
server.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from components.arguments import Placement, WeightSource
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from config.errors import StackError
from config.stack import arguments
from config.stack.file import read_sections, stack_file
from config.stack.sections import SecurityProfile, StackConfig
from tests.program import PROGRAM
from tests.recording_engine import record
from tests.unit.components.samples import H200, KIMI, ON_H200
from tests.unit.components.test_inference_server import served

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


def server(security: arguments.Security | None = None, volume: WeightSource = ON_H200) -> dict[str, Any]:
    """The pod of a server."""
    recording = served(volume=volume, security=security)
    pod: dict[str, Any] = recording.only(":Deployment").inputs["spec"]["template"]["spec"]
    return pod


def test_a_server_meets_the_level_restricted_and_leaves_the_weights_to_their_group() -> None:
    pod = server()
    assert list(violations(pod)) == []
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == 2000
    assert "fsGroup" not in pod["securityContext"], "it would change every file before each start"


def test_everything_that_a_server_writes_is_a_volume() -> None:
    pod = server()
    (engine,) = pod["containers"]
    empty = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    writable = {mount["mountPath"] for mount in engine["volumeMounts"] if mount["name"] in empty}
    assert {"/tmp", "/cache"} <= writable
    homes = {variable["name"]: variable["value"] for variable in engine["env"] if "value" in variable}
    for variable in ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        assert homes[variable].startswith("/cache"), variable
    assert homes["USER"]
    for container in [*pod["initContainers"], engine]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_server_on_a_directory_of_the_node_lacks_only_the_volume() -> None:
    assert list(violations(server(volume={"host_path": "/mnt/nvme"}))) == ["volume weights"]


@pytest.mark.parametrize(("user", "expected"), [(0, 2000), (1000, 1000)])
def test_root_is_for_the_jobs_alone(user: int, expected: int) -> None:
    assert server({"user": user})["securityContext"]["runAsUser"] == expected


def test_baseline_keeps_the_user_and_file_system_of_the_images() -> None:
    security: arguments.Security = {"profile": SecurityProfile.BASELINE}
    for pod in [server(security), *pods(security=security)]:
        assert "securityContext" not in pod
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert "readOnlyRootFilesystem" not in container["securityContext"]


def test_none_sets_no_field() -> None:
    security: arguments.Security = {"profile": SecurityProfile.NONE}
    for pod in [server(security), *pods(security=security)]:
        assert "securityContext" not in str(pod)


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"security": {"profile": "restricted", "user": 0}}, "does not allow security.user 0"),
        (
            {"security": {"profile": "restricted"}, "weights": {"kind": "host-path"}},
            "does not allow the hostPath volume",
        ),
        ({"security": {"profile": "baseline"}, "weights": {"kind": "host-path"}}, "hostPath volume of weights.kind"),
        ({"security": {"profile": "strict"}}, "restricted"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(sections: dict[str, Any], fault: str) -> None:
    with pytest.raises(StackError, match=fault):
        StackConfig.parse({**read_sections(stack_file("h200", PROGRAM)), **sections})
