"""The objects that let the stage Jobs of several nodes share one download: Service and Secret.

Each pod has a fixed DNS name below a headless Service, also after a restart. Only stage pods of the same component can
connect to the port (`components/network/policies.py`), and they need the Secret.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.core.v1 import Secret, Service

from components.pods.labels import labels
from components.pods.names import object_name, stack_name
from components.pods.weight_source import PlacedVolume
from stager.stage_request import FLEET_SECRET

PORT = 8470
_SECRET_BYTES = 32


class StageFleet:
    """Creates the objects that the Jobs of the component `name` share. `volumes`: one volume for each named node."""

    def __init__(
        self, name: str, namespace: pulumi.Input[str], volumes: Sequence[PlacedVolume], parent: pulumi.Resource
    ) -> None:
        self._namespace = namespace
        self._volumes = volumes
        self._service = object_name(f"{name}-peers")
        selector = labels(stack_name(), name)
        metadata = {"namespace": namespace, "labels": selector}
        port = {"protocol": "TCP", "port": PORT}
        Service(
            f"{name}-peers",
            # Do not wait for endpoints: the pods exist only while the Jobs run.
            metadata=metadata | {"name": self._service, "annotations": {"pulumi.com/skipAwait": "true"}},
            spec={
                "cluster_ip": "None",
                "selector": selector,
                "publish_not_ready_addresses": True,
                "ports": [{"name": "weights", **port}],
            },
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
        self._secret = Secret(
            f"{name}-peers",
            metadata=metadata,
            string_data={FLEET_SECRET: pulumi.Output.secret(secrets.token_urlsafe(_SECRET_BYTES))},
            # Generated once, and kept in the stack's state.
            opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["stringData", "data"]),
        )

    def arguments(self, volume: PlacedVolume) -> list[pulumi.Input[str]]:
        """Returns the stager's arguments on the node of `volume`: its own name and the addresses of all nodes."""
        peers = [
            pulumi.Output.concat(f"--peer={other.hostname}=http://", self._host(other), ".", self._address)
            for other in self._volumes
        ]
        return [f"--node={volume.hostname}", *peers]

    def pod(self, volume: PlacedVolume) -> dict[str, Any]:
        """Returns the fields of a pod's spec that give it its DNS name."""
        return {"hostname": self._host(volume), "subdomain": self._service}

    @property
    def environment(self) -> list[dict[str, Any]]:
        """Environment of the stager's container, with the secret."""
        reference = {"name": self._secret.metadata["name"], "key": FLEET_SECRET}
        return [{"name": FLEET_SECRET, "value_from": {"secret_key_ref": reference}}]

    @property
    def ports(self) -> list[dict[str, Any]]:
        """Ports of the stager's container."""
        return [{"name": "weights", "container_port": PORT}]

    @property
    def _address(self) -> pulumi.Output[str]:
        return pulumi.Output.concat(self._service, ".", self._namespace, f".svc:{PORT}")

    def _host(self, volume: PlacedVolume) -> str:
        """Returns a DNS label for the node, because a node's name can contain dots."""
        return f"node-{self._volumes.index(volume)}"
