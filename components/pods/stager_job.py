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
from components.pods.placement import HOSTNAME_LABEL, PodPlacement
from components.pods.staged_weights import WEIGHTS_MOUNT
from components.pods.weight_source import PlacedVolume

PROGRAM_MOUNT = "/heavylift"
STAGER = f"{PROGRAM_MOUNT}/stager"

_LONGEST_NAME = 63 - len("-01234567")
"""Of a Job, before Pulumi adds to it: its name becomes a label of its pods."""

_ATTEMPTS_AFTER_THE_FIRST = 2
"""For a pod that was killed, and for a source that did not answer."""

_FINAL_STATUSES = [1, 2]
"""Exit statuses of the stager (`stager/__main__.py`) after which another attempt would end in the same way."""

FIXED_FIELDS = ["spec.podFailurePolicy", "spec.podReplacementPolicy"]
"""Fields that make a new Job where they change: the API server does not let them be updated, and the provider would."""

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
    """The component that makes it, as its labels say it: "stage" or "prune" in a stack of one model."""
    image: pulumi.Input[str]
    """Image with Python 3.11 or newer."""
    placement: PodPlacement
    """The nodes where the server runs."""
    program: pulumi.Input[str]
    """Name of the ConfigMap that holds the stager."""

    def spec(
        self, deadline_seconds: int, pod: Mapping[str, Any], nodes: int = 1, *, watched: bool = False
    ) -> dict[str, Any]:
        """The spec of a Job that runs `pod` until it succeeds, on so many nodes at a time, for so long at most.

        `watched`: whether somebody sees it fail before its attempts are used up. Pulumi's provider 4.25 does not: it
        knows a failed Job by BackoffLimitExceeded or DeadlineExceeded alone.
        """
        each = {"completion_mode": "Indexed", "completions": nodes, "parallelism": nodes} if nodes > 1 else {}
        [work] = pod["containers"]
        final = {"container_name": work["name"], "operator": "In", "values": _FINAL_STATUSES}
        return {
            "active_deadline_seconds": deadline_seconds,
            "backoff_limit": _ATTEMPTS_AFTER_THE_FIRST,
            **each,
            # A second pod starts only when the first has ended: never two writers.
            "pod_replacement_policy": "Failed",
            "pod_failure_policy": {
                "rules": [
                    {"action": "Ignore", "on_pod_conditions": [{"type": "DisruptionTarget"}]},
                    *([{"action": "FailJob", "on_exit_codes": final}] if watched else []),
                ]
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
        service_account: pulumi.Input[str] | None = None,
    ) -> dict[str, Any]:
        """A pod on the volume's node, with empty directories named `scratch` for the containers to share."""
        account = {} if service_account is None else {"service_account_name": service_account}
        return {
            "restart_policy": "Never",
            **(account or {"automount_service_account_token": False}),
            **self.placement.scheduling(volume.hostname),
            **(self._one_per_node() if volume.nodes > 1 else {}),
            **({"init_containers": list(init_containers)} if init_containers else {}),
            "containers": [container],
            "volumes": [
                {"name": "program", "config_map": {"name": self.program}},
                *({"name": name, "empty_dir": {}} for name in scratch),
                volume.pod_volume(),
            ],
        }

    def _one_per_node(self) -> dict[str, Any]:
        """Spreads the pods of one Job over nodes whose names are not known.

        Limit: a pod that starts over after another has ended may land on that one's node, and its own stays empty; the
        server's check of the weights then says so.
        """
        same = {"label_selector": {"match_labels": labels(self.instance, self.component)}}
        required = [same | {"topology_key": HOSTNAME_LABEL}]
        return {"affinity": {"pod_anti_affinity": {"required_during_scheduling_ignored_during_execution": required}}}

    def container(
        self,
        name: str,
        command: Sequence[pulumi.Input[str]],
        *,
        resources: Mapping[str, Any],
        environment: Mapping[str, pulumi.Input[str]] | None = None,
        scratch: Mapping[str, str] | None = None,
        weights: bool = True,
    ) -> dict[str, Any]:
        """A container with the program, and the weights to write to; `scratch` says where it mounts what is shared."""
        variables = {**_ENVIRONMENT, **(environment or {})}
        shared = [{"name": name, "mount_path": path} for name, path in (scratch or {}).items()]
        return {
            "name": name,
            "image": self.image,
            "command": list(command),
            "env": [{"name": variable, "value": variables[variable]} for variable in sorted(variables)],
            "resources": resources,
            "security_context": _SECURITY,
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [
                {"name": "program", "mount_path": STAGER, "read_only": True},
                *shared,
                *([{"name": "weights", "mount_path": WEIGHTS_MOUNT}] if weights else []),
            ],
        }
