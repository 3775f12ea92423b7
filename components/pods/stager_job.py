"""The Job in which the stager runs, whatever it is told to do: its image, its place, its program and the volume.

The pod lands where the server will, may write to the weights and to nothing else, and cannot talk to the cluster
unless it is given an account. Two pods of one Job never run at the same time.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.pods.labels import labels
from components.pods.placement import Placement
from components.pods.staged_weights import WEIGHTS_MOUNT
from components.weight_volume import PlacedVolume

PROGRAM_MOUNT = "/heavylift"
STAGER = f"{PROGRAM_MOUNT}/stager"

_LONGEST_NAME = 63 - len("-01234567")
"""Of a Job, before Pulumi adds to it: its name becomes a label of its pods."""

_ATTEMPTS_AFTER_THE_FIRST = 2
"""For a pod that was killed. A Job cannot be failed at once by the stager's exit status: Pulumi's provider 4.25 knows a
failed Job by BackoffLimitExceeded or DeadlineExceeded alone, and would wait for any other until its own time-out."""

_SECURITY = {
    "allow_privilege_escalation": False,
    # The mount point of a disk may belong to anybody.
    "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
}

_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": PROGRAM_MOUNT, "PYTHONUNBUFFERED": "1"}


def job_name(name: str, digest: str, hostname: str | None) -> str:
    """Name of the Job `name` of the weights `digest` on one node; the long name of a node ends in a hash of it."""
    whole = "-".join(part for part in (name, digest, hostname) if part)
    if len(whole) <= _LONGEST_NAME:
        return whole
    short = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: _LONGEST_NAME - len(short) - 1].rstrip('-.')}-{short}"


@dataclass(frozen=True)
class StagerJob:
    """What all Jobs of the stager in one stack have in common."""

    instance: str
    """Name of the stack."""
    component: str
    """What the Job is for, as its labels say it: "stage" or "prune"."""
    image: str
    """Image with Python 3.11 or newer."""
    placement: Placement
    """The nodes where the server runs."""
    program: pulumi.Input[str]
    """Name of the ConfigMap that holds the stager."""

    def spec(self, deadline_seconds: int, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The spec of a Job that runs `pod` until it succeeds, for so long at most."""
        return {
            "active_deadline_seconds": deadline_seconds,
            "backoff_limit": _ATTEMPTS_AFTER_THE_FIRST,
            # A second pod starts only when the first has ended: never two writers.
            "pod_replacement_policy": "Failed",
            "pod_failure_policy": {
                "rules": [{"action": "Ignore", "on_pod_conditions": [{"type": "DisruptionTarget"}]}]
            },
            "template": {"metadata": {"labels": labels(self.instance, self.component)}, "spec": pod},
        }

    def pod(
        self,
        volume: PlacedVolume,
        container: Mapping[str, Any],
        *,
        init_containers: Sequence[Mapping[str, Any]] = (),
        scratch: Sequence[str] = (),
        service_account: str | None = None,
    ) -> dict[str, Any]:
        """A pod on the volume's node, with empty directories named `scratch` for the containers to share."""
        account = {"service_account_name": service_account} if service_account else {}
        return {
            "restart_policy": "Never",
            **(account or {"automount_service_account_token": False}),
            **self.placement.scheduling(volume.hostname),
            **({"init_containers": list(init_containers)} if init_containers else {}),
            "containers": [container],
            "volumes": [
                {"name": "program", "config_map": {"name": self.program}},
                *({"name": name, "empty_dir": {}} for name in scratch),
                volume.pod_volume(),
            ],
        }

    def container(
        self,
        name: str,
        command: Sequence[str],
        *,
        resources: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
        scratch: Mapping[str, str] | None = None,
        weights: bool = True,
    ) -> dict[str, Any]:
        """A container with the program, and the weights to write to; `scratch` says where it mounts what is shared."""
        variables = sorted((_ENVIRONMENT | dict(environment or {})).items())
        shared = [{"name": name, "mount_path": path} for name, path in (scratch or {}).items()]
        return {
            "name": name,
            "image": self.image,
            "command": list(command),
            "env": [{"name": variable, "value": value} for variable, value in variables],
            "resources": resources,
            "security_context": _SECURITY,
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [
                {"name": "program", "mount_path": STAGER, "read_only": True},
                *shared,
                *([{"name": "weights", "mount_path": WEIGHTS_MOUNT}] if weights else []),
            ],
        }
