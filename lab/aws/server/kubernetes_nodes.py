"""Nodes of the lab's cluster: simulated ones, whose devices appear when the pod of a device plugin runs on them."""

import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, cast

from kubernetes.client import ApiException, CoreV1Api, V1Node
from kubernetes.config import new_client_from_config
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from lab.aws.server.node import EFA, GPU, PROMISED
from lab.aws.server.store import Record

PLUGINS = {"aws-efa-k8s-device-plugin": EFA, "k8s-device-plugin": GPU}
"""Resource of a device plugin by a part of its image's name. The first that matches counts."""


PAUSE_SECONDS = 0.5
"""Pause between two attempts to watch."""


class KubernetesNodes:
    """The simulated nodes of a cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = CoreV1Api(new_client_from_config(str(kubeconfig)))  # type: ignore[no-untyped-call]
        Thread(target=self._watch_plugins, daemon=True).start()

    def add(self, manifest: Record) -> None:
        """Adds a node, which kwok makes Ready. An older node of the same name is removed first."""
        self.remove(str(manifest["metadata"]["name"]))
        # The client accepts JSON and its own classes.
        self._api.create_node(cast(V1Node, manifest))

    def remove(self, name: str) -> None:
        """Removes a node if it exists, and its pods at once, which the cluster itself removes after a minute."""
        try:
            self._api.delete_node(name)
        except ApiException as refusal:
            if refusal.status == 404:
                return
            raise
        pods: Any = self._api.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={name}")
        for pod in pods.items:
            with suppress(ApiException):
                self._api.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0)

    def _watch_plugins(self) -> None:
        while True:
            try:
                watch = Watch()  # type: ignore[no-untyped-call]
                for event in watch.stream(self._api.list_pod_for_all_namespaces):  # type: ignore[no-untyped-call]
                    self._see(event["object"])
            except (ApiException, HTTPError):
                # The API server starts after this server.
                time.sleep(PAUSE_SECONDS)

    def _see(self, pod: Any) -> None:
        """Adds the devices of a node if the pod is that of a running device plugin."""
        if not pod.spec.node_name or pod.status.phase != "Running":
            return
        for container in pod.spec.containers:
            resource = next((PLUGINS[part] for part in PLUGINS if part in container.image), None)
            if resource:
                self._find_devices(pod.spec.node_name, resource)

    def _find_devices(self, name: str, resource: str) -> None:
        try:
            found: Any = self._api.read_node(name)
        except ApiException:
            return
        key = resource.replace("/", "_")
        count = (found.metadata.annotations or {}).get(PROMISED + key)
        if count and resource not in (found.status.allocatable or {}):
            path = resource.replace("/", "~1")
            changes = [
                {"op": "add", "path": f"/status/{field}/{path}", "value": count}
                for field in ("capacity", "allocatable")
            ]
            self._api.patch_node_status(name, changes)
