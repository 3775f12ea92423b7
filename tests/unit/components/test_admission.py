"""Whether the API server would take the server's pods, with answers as a real one gives them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from components.cluster.admission import refusals
from components.planned import server_pods
from components.planned.server_pods import server_pods_to_come
from config.stack.file import read_stack_file
from tests.unit.components.api_server import Answer, api_server
from tests.unit.components.samples import serving

PODS = "/api/v1/namespaces/serving/pods"
POD = {"metadata": {"generateName": "server-"}, "spec": {"containers": []}}
PROGRAM = Path(__file__).parents[3]


def said(status: int, message: str) -> list[str]:
    """What is made of the API server's answer; asserts that nothing was asked to be made."""
    asked: list[Mapping[str, str]] = []

    def answer(path: str, query: Mapping[str, str]) -> Answer:
        assert path == PODS
        asked.append(query)
        return status, f'{{"kind": "Status", "message": "{message}"}}'

    with api_server(answer) as api:
        reasons = refusals(api, "serving", [POD, POD])
    assert asked == [{"dryRun": "All"}] * 2
    return reasons


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'pods \\"server-x\\" is forbidden: violates PodSecurity \\"restricted:latest\\": hostPath volumes'),
        (403, 'pods \\"server-x\\" is forbidden: failed quota: team: must specify limits.cpu for: engine'),
        (403, 'pods \\"server-x\\" is forbidden: maximum memory usage per Container is 64Gi, but limit is 272Gi'),
        (400, 'admission webhook \\"validate.kyverno.svc-fail\\" denied the request: images must be signed'),
        (422, 'Pod \\"server-x\\" is invalid: spec.containers[0].image: Required value'),
    ],
)
def test_a_refusal_is_told_once_in_the_clusters_words(status: int, message: str) -> None:
    assert said(status, message) == [message.replace('\\"', '"')]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (201, "made"),
        (403, 'pods is forbidden: User \\"ci\\" cannot create resource \\"pods\\" in API group \\"\\"'),
        (403, 'pods \\"server-x\\" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8'),
        (404, 'namespaces \\"serving\\" not found'),
        (500, "failed calling webhook: connection refused"),
        (503, "apiserver is shutting down"),
    ],
)
def test_what_is_not_about_the_pod_refuses_nothing(status: int, message: str) -> None:
    assert said(status, message) == []


@pytest.mark.parametrize(
    ("name", "containers"), [("h200", ["engine"]), ("dev", ["engine"]), ("h100x16", ["engine"] * 2)]
)
def test_the_pods_are_those_that_will_be_made(
    monkeypatch: pytest.MonkeyPatch, name: str, containers: list[str]
) -> None:
    monkeypatch.setattr(server_pods, "stack_name", lambda: name)
    stack = read_stack_file(PROGRAM / f"Pulumi.{name}.yaml")
    pods = server_pods_to_come(stack, serving(nodes=len(containers), gpus=0 if name == "dev" else 8), "0" * 16)
    assert [container["name"] for pod in pods for container in pod["spec"]["containers"]] == containers
    for pod in pods:
        assert {"name": "weights", "mountPath": "/weights", "readOnly": True} in (
            pod["spec"]["containers"][0]["volumeMounts"]
        )
