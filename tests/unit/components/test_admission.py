"""Whether the API server would take what the stack makes, with answers as a real one gives them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.cluster.admission import Creation, refusals
from components.planned.model import PlannedModel
from components.planned.to_come import creations
from components.pods.labels import labels
from config.stack.file import read_stack_file
from config.stack.sections import NodeKind, StackConfig, WeightsKind
from planner import fit, time_limits
from planner.stack_request import request_of_stack
from tests.recording_engine import record
from tests.unit.components.api_server import Answer, api_server

PODS = "/api/v1/namespaces/serving/pods"
SERVICE = "/api/v1/namespaces/serving/services/h200"
POD = Creation("the server's pod", "api/v1:pods", {"metadata": {"generateName": "server-"}, "spec": {"containers": []}})
TAKEN = "the Service: h200 exists already, and this stack did not make it; delete it, or "
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
        (403, 'pods \\"server-x\\" is forbidden: violates PodSecurity \\"restricted:latest\\": runAsNonRoot != true'),
        (403, 'pods \\"server-x\\" is forbidden: failed quota: team: must specify limits.cpu for: engine'),
        (403, 'pods \\"server-x\\" is forbidden: maximum memory usage per Container is 64Gi, but limit is 272Gi'),
        (400, 'admission webhook \\"validate.kyverno.svc-fail\\" denied the request: images must be signed'),
        (422, 'Pod \\"server-x\\" is invalid: spec.containers[0].image: Required value'),
        (403, "exceeded quota: t, requested: limits.memory=272Gi, used: limits.memory=0, limited: limits.memory=64Gi"),
        (
            403,
            "exceeded quota, requested: limits.cpu=8,pods=1, used: limits.cpu=0,pods=1, limited: limits.cpu=4,pods=9",
        ),
    ],
)
def test_a_refusal_is_told_once_in_the_clusters_words(status: int, message: str) -> None:
    assert said(status, message) == ["the server's pod: " + message.replace('\\"', '"')]


@pytest.mark.parametrize(
    "words_of_the_server",
    [
        'violates PodSecurity \\"baseline:latest\\": hostPath volumes (volume \\"weights\\")',
        'violates PodSecurity \\"restricted:latest\\": restricted volume types (volume \\"weights\\" uses restricted '
        'volume type \\"hostPath\\")',
    ],
)
def test_a_host_path_that_the_namespace_refuses_is_told_with_the_way_out(words_of_the_server: str) -> None:
    words = said(403, words_of_the_server)
    assert words[1].startswith("the server's pod: weights of kind host-path need a namespace without this Pod Security")
    assert "heavylift:weights.kind claim" in words[1]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (201, "made"),
        (403, 'pods is forbidden: User \\"ci\\" cannot create resource \\"pods\\" in API group \\"\\"'),
        (403, "exceeded quota: t, requested: limits.cpu=8, used: limits.cpu=8, limited: limits.cpu=12"),
        (404, 'namespaces \\"serving\\" not found'),
        (500, "failed calling webhook: connection refused"),
        (503, "apiserver is shutting down"),
    ],
)
def test_what_is_not_about_the_pod_refuses_nothing(status: int, message: str) -> None:
    assert said(status, message) == []


@pytest.mark.parametrize(
    ("owner", "reasons"),
    [
        (labels("h200", "chat-server"), []),
        (
            labels("other", "server"),
            [TAKEN],
        ),
        ({}, [TAKEN]),
    ],
)
def test_a_service_of_somebody_else_with_this_name_is_told(owner: dict[str, str], reasons: list[str]) -> None:
    service = Creation(
        "the Service", "api/v1:services", {"metadata": {"name": "h200", "labels": labels("h200", "server")}}
    )
    taken = (409, '{"message": "services \\"h200\\" already exists"}')
    answers: dict[str, Answer] = {
        "/api/v1/namespaces/serving/services": taken,
        SERVICE: {"metadata": {"name": "h200", "labels": owner}},
    }
    with api_server(answers) as api:
        found = refusals(api, "serving", [service])
    assert [words[: len(reason)] for words, reason in zip(found, reasons, strict=True)] == reasons


def coming(name: str, stack: StackConfig | None = None) -> dict[str, list[Any]]:
    """What a stack is about to create, as JSON, by what it is. Without `stack`, the committed one of that name."""
    stack = stack or read_stack_file(PROGRAM / f"Pulumi.{name}.yaml")
    request = request_of_stack(stack, None)
    plan = fit(request)
    planned = PlannedModel(stack, None, plan, time_limits(plan, request, full_verification=False))
    found: dict[str, list[Any]] = {}
    made: list[Creation] = []
    record(lambda: made.extend(creations(planned, name)), stack=name)
    for creation in made:
        found.setdefault(creation.what, []).append(json.loads(json.dumps(creation.body)))
    return found


@pytest.mark.parametrize(("name", "pods"), [("h200", 1), ("dev", 1), ("h100x16", 2)])
def test_the_objects_are_those_that_will_be_made(name: str, pods: int) -> None:
    found = coming(name)
    assert len(found["the server's pod"]) == pods
    for pod in found["the server's pod"]:
        [container] = pod["spec"]["containers"]
        assert {"name": "weights", "mountPath": "/weights", "readOnly": True} in container["volumeMounts"]
    [stage], [job], [service] = (found[what] for what in ("the stage pod", "the stage Job", "the Service"))
    assert [container["name"] for container in stage["spec"]["containers"]] == ["stage"]
    assert job["spec"]["template"]["spec"] == stage["spec"]
    assert service["metadata"]["name"] == name
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http"]


def test_on_nodes_without_names_the_daemon_set_is_asked_for_instead_of_a_job() -> None:
    stack = read_stack_file(PROGRAM / "Pulumi.h200.yaml")
    group = stack.nodes.model_copy(update={"names": (), "count": 1, "kind": NodeKind.EKS})
    weights = stack.weights.model_copy(update={"kind": WeightsKind.HOST_PATH})
    found = coming("h200", stack.model_copy(update={"nodes": group, "weights": weights}))
    assert "the stage Job" not in found
    [stage], [daemon_set], [server] = (
        found[what] for what in ("the stage pod", "the stage DaemonSet", "the server's pod")
    )
    assert daemon_set["spec"]["template"]["spec"] == stage["spec"]
    assert [container["name"] for container in stage["spec"]["initContainers"]] == ["requirements", "stage"]
    assert "--wait-seconds=1429" in server["spec"]["initContainers"][0]["command"]
