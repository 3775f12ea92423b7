"""Simulated GPU nodes: Node objects that kwok keeps Ready, and ways to break them in a test.

They test order, scheduling and admission. A Job on one completes without running anything.
"""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from kubernetes.client import ApiException, V1Node

from lab.cluster import client
from lab.errors import LabError
from lab.site import Site

PROFILES = Path(__file__).parent / "profiles.toml"
KWOK = "kwok.x-k8s.io/node"
READY_SECONDS = 120
GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"


def profiles() -> dict[str, dict[str, Any]]:
    """Returns all profiles by name."""
    return tomllib.loads(PROFILES.read_text())


def profile(name: str) -> dict[str, Any]:
    """Returns a profile. Raises LabError, which lists the profiles, if the name is unknown."""
    known = profiles()
    if name not in known:
        raise LabError(f"no profile {name!r}: expected one of {', '.join(known)}")
    return known[name]


def labels(name: str, shape: dict[str, Any]) -> dict[str, str]:
    """Returns the labels that the kubelet and the labeller of the GPUs' vendor would set."""
    of_gpus = _amd_labels(shape) if shape["gpu"].get("resource") == AMD_GPU else _nvidia_labels(shape)
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
        **of_gpus,
        **shape.get("labels", {}),
    }


def _amd_labels(shape: dict[str, Any]) -> dict[str, str]:
    """Returns the labels of AMD's node labeller (github.com/ROCm/k8s-device-plugin, cmd/k8s-node-labeller)."""
    gpu = shape["gpu"]
    return {
        "amd.com/gpu.product-name": gpu["product"],
        "amd.com/gpu.vram": f"{gpu['memory_mib'] // 1024 + 1}G",
        "amd.com/gpu.driver-version": shape["driver"],
    }


def _nvidia_labels(shape: dict[str, Any]) -> dict[str, str]:
    """Returns the labels of NVIDIA's GPU feature discovery."""
    gpu = shape["gpu"]
    compute_major, compute_minor = gpu["compute"].split(".")
    driver_major, driver_minor, driver_revision = shape["driver"].split(".")
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": gpu["product"],
        "nvidia.com/gpu.count": str(gpu["count"]),
        "nvidia.com/gpu.memory": str(gpu["memory_mib"]),
        "nvidia.com/gpu.compute.major": compute_major,
        "nvidia.com/gpu.compute.minor": compute_minor,
        "nvidia.com/cuda.driver-version.full": shape["driver"],
        "nvidia.com/cuda.driver-version.major": driver_major,
        "nvidia.com/cuda.driver-version.minor": driver_minor,
        "nvidia.com/cuda.driver-version.revision": driver_revision,
    }


def manifest(name: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Returns the Node object, with its resources in the status, as a kubelet would report them."""
    resources = {"cpu": str(shape["cpus"]), "memory": shape["memory"], "pods": "110", "ephemeral-storage": "3Ti"}
    resources[shape["gpu"].get("resource", GPU)] = str(shape["gpu"]["count"])
    if fabric := shape.get("fabric"):
        resources[fabric["resource"]] = str(fabric["count"])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels(name, shape), "annotations": {KWOK: "fake"}},
        "status": {"capacity": resources, "allocatable": resources},
    }


class SimulatedNodes:
    """The simulated nodes of one lab's cluster."""

    def __init__(self, site: Site) -> None:
        self._api = client.core(site)

    def add(self, profile_name: str, names: Sequence[str] = ()) -> list[str]:
        """Creates the profile's nodes, optionally with other names, and waits until they are Ready.

        Recreates existing nodes of these names.
        """
        shape = profile(profile_name)
        added = list(names or shape["nodes"])
        for name in added:
            self.delete(name)
            # The client accepts JSON and its own classes.
            self._api.create_node(cast(V1Node, manifest(name, shape)))
        for name in added:
            self._wait_until_ready(name)
        return added

    @contextmanager
    def added(self, profile_name: str, names: Sequence[str] = ()) -> Iterator[list[str]]:
        """Does the same as `add`, and removes the nodes afterwards."""
        added = names or profile(profile_name)["nodes"]
        try:
            yield self.add(profile_name, names)
        finally:
            for name in added:
                self.delete(name)

    def _wait_until_ready(self, name: str) -> None:
        ready = f"node {name} did not become Ready"
        client.wait_until(lambda: client.is_ready(client.node(self._api, name)), READY_SECONDS, ready)

    def delete(self, name: str) -> None:
        """Removes a simulated node from the cluster if it exists."""
        try:
            self._api.delete_node(name)
        except ApiException as refusal:
            if refusal.status != 404:
                raise

    def take_out(self, name: str) -> None:
        """Deletes a simulated node. Raises LabError if it does not exist or is a real node."""
        labels_found = client.node(self._api, name)["metadata"]["labels"]
        if labels_found.get("type") != "kwok":
            raise LabError(f"node {name!r} is a real one: it goes with the lab")
        self.delete(name)

    def drain(self, name: str) -> None:
        """Makes a node unschedulable and evicts its pods."""
        client.node(self._api, name)
        self._api.patch_node(name, {"spec": {"unschedulable": True}})
        pods = self._api.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={name}")
        for pod in client.json_of(self._api, pods)["items"]:
            self._api.delete_namespaced_pod(pod["metadata"]["name"], pod["metadata"]["namespace"])

    def set_resource(self, name: str, resource: str, count: int | None) -> None:
        """Sets an extended resource of a simulated or real node. None: removes it."""
        if count is not None and count < 0:
            raise LabError(f"{resource}: {count} is negative")
        status = client.node(self._api, name)["status"]
        if count is None and resource not in status.get("capacity", {}):
            return
        key = resource.replace("~", "~0").replace("/", "~1")
        change = {"op": "remove"} if count is None else {"op": "add", "value": str(count)}
        self._api.patch_node_status(
            name, [{**change, "path": f"/status/{field}/{key}"} for field in ("capacity", "allocatable")]
        )

    def set_unready(self, name: str) -> None:
        """Makes a node not Ready: kwok stops managing the node, and its condition Ready becomes False."""
        client.node(self._api, name)
        self._api.patch_node(name, {"metadata": {"annotations": {KWOK: None}}})
        condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "broken by the lab"}
        self._api.patch_node_status(name, {"status": {"conditions": [condition]}})
