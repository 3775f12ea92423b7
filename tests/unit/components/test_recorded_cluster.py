"""A cluster that was made anew under a stack's state: said before anything is replaced, and mended by a refresh."""

from typing import Any

import pulumi
import pytest

from components.cluster.api import ClusterApi, object_path
from components.cluster.recorded_cluster import is_made_anew
from tests.recording_engine import Recording, record
from tests.unit.components.api_server import Answer, api_server

OLD, NEW = "11111111-aaaa", "22222222-bbbb"
CLAIM = "/api/v1/namespaces/serving/persistentvolumeclaims/h200-weights"
GROUP = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/serving/leaderworkersets/server-1"
POLICY = "/apis/networking.k8s.io/v1/namespaces/serving/networkpolicies/peers"


def object_of(version: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    """One object in the state, as the provider returns it."""
    outputs = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "serving", "uid": uid}}
    return {"type": f"kubernetes:{version}:{kind}", "outputs": outputs}


def state(*objects: dict[str, Any], identifier: str = OLD) -> dict[str, Any]:
    """A state whose provider cannot be reached any more."""
    outputs = {"clusterIdentifier": identifier, "kubeconfig": "not a kubeconfig"}
    provider = {"type": "pulumi:providers:kubernetes", "outputs": outputs}
    return {"urn:pulumi:s::p::pulumi:providers:kubernetes::cluster": provider} | {
        f"urn:pulumi:s::p::x::{number}": each for number, each in enumerate(objects)
    }


def found(api: ClusterApi, recorded: dict[str, Any]) -> bool:
    answers: list[bool] = []
    record(lambda: answers.append(is_made_anew(api, NEW, "cluster")), into=Recording(state=recorded))
    return answers[0]


STAGED = (
    object_of("v1", "PersistentVolumeClaim", "h200-weights", "1"),
    object_of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "server-1", "2"),
    object_of("networking.k8s.io/v1", "NetworkPolicy", "peers", "3"),
)
THERE: dict[str, Answer] = {
    CLAIM: {"metadata": {"uid": "1"}},
    GROUP: {"metadata": {"uid": "2"}},
    POLICY: {"metadata": {"uid": "3"}},
}


def test_the_first_update_and_the_same_cluster_are_nothing_to_speak_of() -> None:
    with api_server({}) as api:
        assert found(api, {}) is False
        assert found(api, state(*STAGED, identifier=NEW)) is False


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({}, "LeaderWorkerSet server-1, NetworkPolicy peers, PersistentVolumeClaim h200-weights"),
        (THERE | {CLAIM: {"metadata": {"uid": "another one of this name"}}}, "PersistentVolumeClaim h200-weights"),
    ],
)
def test_objects_that_are_gone_with_their_cluster_are_named_with_what_to_type(
    answers: dict[str, Answer], missing: str
) -> None:
    with api_server(answers) as api, pytest.raises(pulumi.RunError) as refused:
        found(api, state(*STAGED))
    assert f"lacks {missing}. An update would replace every object" in str(refused.value)
    assert "PULUMI_K8S_DELETE_UNREACHABLE=true pulumi refresh" in str(refused.value)


def test_after_a_refresh_the_objects_that_are_there_are_not_replaced() -> None:
    with api_server(THERE) as api:
        assert found(api, state(*STAGED)) is True


def test_after_a_refresh_that_left_nothing_the_provider_is_of_the_new_cluster() -> None:
    patch = {"type": "kubernetes:core/v1:NodePatch", "outputs": object_of("v1", "Node", "a", "9")["outputs"]}
    with api_server({}) as api:
        assert found(api, state(patch)) is False


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "path"),
    [
        ("v1", "Service", "serving", "/api/v1/namespaces/serving/services/a"),
        ("v1", "PersistentVolume", None, "/api/v1/persistentvolumes/a"),
        ("networking.k8s.io/v1", "NetworkPolicy", "serving", "/networkpolicies/a"),
        ("networking.k8s.io/v1", "Ingress", "serving", "/ingresses/a"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", None, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a"),
    ],
)
def test_the_path_of_an_object_is_that_of_its_resource(
    version: str, kind: str, namespace: str | None, path: str
) -> None:
    metadata = {"name": "a"} | ({"namespace": namespace} if namespace else {})
    assert object_path({"apiVersion": version, "kind": kind, "metadata": metadata}).endswith(path)
