"""A Job that really runs, and a Deployment that depends on it and asks for eight GPUs."""

import os

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job

IMAGE = "heavylift.lab/python:1"

job = Job(
    "write",
    spec={
        "backoff_limit": 0,
        "template": {
            "spec": {
                "restart_policy": "Never",
                "node_selector": {"kubernetes.io/hostname": "real-0"},
                "containers": [
                    {
                        "name": "write",
                        "image": IMAGE,
                        "command": ["sh", "-c", os.environ["GATE_COMMAND"]],
                        "volume_mounts": [{"name": "disk", "mount_path": "/disk"}],
                    }
                ],
                "volumes": [
                    {"name": "disk", "host_path": {"path": "/var/lib/gate", "type": "DirectoryOrCreate"}},
                ],
            }
        },
    },
    opts=pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="60s")),
)
labels = {"app": "serve"}
Deployment(
    "serve",
    metadata={"name": "serve"},
    spec={
        "selector": {"match_labels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "node_selector": {"kubernetes.io/hostname": "h200-0"},
                "containers": [{"name": "serve", "image": IMAGE, "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
            },
        },
    },
    opts=pulumi.ResourceOptions(depends_on=[job]),
)
