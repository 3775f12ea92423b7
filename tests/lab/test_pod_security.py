"""Every pod that a committed stack makes, as the real API server's Pod Security admission judges it at `restricted`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.site import CHECKOUT
from tests.lab.kubectl import Kubectl

pytestmark = pytest.mark.xdist_group("pod security")

GOLDEN = CHECKOUT / "tests/golden"
STACKS = sorted(file.name.split(".")[0] for file in GOLDEN.glob("*.up.json"))
ENFORCE = "pod-security.kubernetes.io/enforce=restricted"


def templates(stack: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields name and spec of each pod of a stack. Device plugins and the controller of groups have namespaces of
    their own."""
    for resource in json.loads((GOLDEN / f"{stack}.up.json").read_text())["resources"]:
        inputs = resource["inputs"]
        # Of what the controller's project publishes, a golden has the kind only.
        if not resource["type"].startswith("kubernetes:") or not isinstance(inputs.get("spec"), dict):
            continue
        if inputs.get("metadata", {}).get("namespace") in ("kube-system", "lws-system"):
            continue
        spec = inputs["spec"]
        found = {"": spec.get("template"), **(spec.get("leaderWorkerTemplate") or {})}
        for part, template in found.items():
            if isinstance(template, dict) and "spec" in template:
                yield f"{resource['name']}{part and f' {part}'}", template["spec"]


def reasons(kubectl: Kubectl, namespace: str, spec: dict[str, Any]) -> str:
    """Returns why the API server refuses a pod. Empty: it admits it."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "golden"}, "spec": spec}
    try:
        kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", text=json.dumps(pod))
    except AssertionError as refusal:
        return str(refusal)
    return ""


@pytest.fixture(scope="module")
def restricted(kubectl: Kubectl) -> Iterator[str]:
    """A namespace that enforces the level."""
    name = "golden-pods"
    kubectl("create", "namespace", name)
    kubectl("label", "namespace", name, ENFORCE)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("stack", STACKS)
def test_every_golden_pod_meets_restricted_but_for_a_directory_of_the_node(
    stack: str, restricted: str, kubectl: Kubectl
) -> None:
    pods = list(templates(stack))
    assert len(pods) >= 2, "one stages, one serves"
    for name, spec in pods:
        refused = reasons(kubectl, restricted, spec)
        has_directory = any("hostPath" in volume for volume in spec["volumes"])
        if not has_directory:
            assert refused == "", name
        elif name.startswith("server"):
            assert "restricted volume types" in refused, name
            for other in ("allowPrivilegeEscalation", "capabilities", "runAsNonRoot", "seccompProfile"):
                assert other not in refused, f"{name}: {refused}"
        else:
            assert "hostPath" in refused, name


def test_a_pod_without_these_fields_is_refused(restricted: str, kubectl: Kubectl) -> None:
    """The admission that the other tests rely on is on."""
    bare = {"containers": [{"name": "bare", "image": "heavylift.lab/pause:1"}]}
    assert "violates PodSecurity" in reasons(kubectl, restricted, bare)
