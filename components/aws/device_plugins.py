"""The device plugins of NVIDIA's GPUs and of EFA, as plain DaemonSets on one group of nodes.

They go by the group's label, and not by a list of instance types: with an old list, a chart schedules no pod on a new
type, and EFA is absent without an error (github.com/aws-samples/aws-do-eks/pull/56).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet

_NVIDIA_IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
_EFA_IMAGE = "602401143452.dkr.ecr.{region}.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
"""Since 0.5.10 it leaves out a p6-b200's NVLink devices (github.com/aws/sagemaker-hyperpod-cli/pull/282)."""

_SOCKETS = {"name": "sockets", "host_path": {"path": "/var/lib/kubelet/device-plugins"}}
_DEVICES = {"name": "devices", "host_path": {"path": "/dev/infiniband"}}


class DevicePluginsArgs(TypedDict):
    """The arguments of `DevicePlugins`."""

    region: str
    """Region, from whose registry the EFA plugin's image is pulled."""
    node_selector: pulumi.Input[Mapping[str, str]]
    """Labels of the nodes."""
    taint: str
    """Key of the nodes' taint."""
    efa: NotRequired[bool]
    """Whether the nodes have EFA interfaces. Unset: false."""


class DevicePlugins(pulumi.ComponentResource):
    """The device plugins of a group of GPU nodes, in the namespace `kube-system`."""

    def __init__(self, name: str, args: DevicePluginsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:DevicePlugins", name, {}, opts)
        self._name, self._args = name, args
        self._plugin("gpu", _NVIDIA_IMAGE, {}, [_SOCKETS])
        if args.get("efa"):
            image = _EFA_IMAGE.format(region=args["region"])
            self._plugin("efa", image, {"host_network": True}, [_SOCKETS, _DEVICES])
        self.register_outputs({})

    def _plugin(self, kind: str, image: str, more: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]]) -> None:
        name = f"{self._name}-{kind}"
        labels = {"app.kubernetes.io/name": f"{kind}-device-plugin", "app.kubernetes.io/instance": self._name}
        mounts = [{"name": each["name"], "mount_path": each["host_path"]["path"]} for each in volumes]
        container = {
            "name": "device-plugin",
            "image": image,
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "security_context": {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}},
            "volume_mounts": mounts,
        }
        pod = {
            "automount_service_account_token": False,
            "priority_class_name": "system-node-critical",
            "node_selector": self._args["node_selector"],
            "tolerations": [{"key": self._args["taint"], "operator": "Exists"}],
            "containers": [container],
            "volumes": list(volumes),
            **more,
        }
        DaemonSet(
            name,
            metadata={"namespace": "kube-system", "labels": labels},
            spec={"selector": {"match_labels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
            opts=pulumi.ResourceOptions(parent=self),
        )
