"""The Job that runs the stager, for every subcommand: image, placement, program and volume.

The pod runs on the server's nodes and mounts the weights with write access. Without a service account, it has no access
to the API server. A Job never runs two pods for the same volume at the same time.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from components.in_pod import packaging
from components.pods.additions import NONE_TO_JOBS, Additions
from components.pods.labels import labels
from components.pods.placement import HOSTNAME_LABEL, PodPlacement
from components.pods.security import PodSecurity
from components.pods.staged_weights import WEIGHTS_MOUNT
from components.pods.weight_source import PlacedVolume

STAGER = "/heavylift/stager"
RUN_STAGER = ("python3", f"{STAGER}/{packaging.RUN_STAGER}")
"""The command of the stager, without its subcommand."""
_TEMPORARY = {"name": "tmp", "mount_path": "/tmp"}  # noqa: S108 - a volume of the pod
"""For Python and pip, where the root file system is read-only."""

_LONGEST_NAME = 63 - len("-01234567")
"""Maximum length of a Job's name without Pulumi's suffix. The name becomes a label of the pods."""

_ATTEMPTS_AFTER_THE_FIRST = 2
"""For a pod that was killed, or a source that did not answer."""

FINAL_STATUSES = (1, 2)
"""Exit statuses of the stager (`stager/__main__.py`) after which another attempt would fail in the same way."""

NO_CREDENTIALS_STATUS = 77
"""Exit status of the stager if no credentials reached its pod. A new pod may get them."""

FIXED_FIELDS = ["spec.podFailurePolicy", "spec.podReplacementPolicy"]
"""Fields that replace the Job if they change. They are immutable, but the provider would try to update them."""

_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def job_name(name: str, digest: str, hostname: str | None) -> str:
    """Returns `<name>-<digest>-<hostname>`. If that is too long, a hash replaces its end."""
    whole = "-".join(part for part in (name, digest, hostname) if part)
    if len(whole) <= _LONGEST_NAME:
        return whole
    short = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: _LONGEST_NAME - len(short) - 1].rstrip('-.')}-{short}"


@dataclass(frozen=True)
class StagerJob:
    """The part that all Jobs of one component share."""

    instance: str
    """Name of the stack."""
    component: str
    """The component in the labels: "stage" or "prune" in a stack of one model."""
    image: pulumi.Input[str]
    """Image with Python 3.11 or newer."""
    placement: PodPlacement
    """The nodes where the server runs."""
    program: pulumi.Input[str]
    """Name of the ConfigMap that holds the stager."""
    security: PodSecurity
    additions: Additions = NONE_TO_JOBS

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the Jobs."""
        return {**labels(self.instance, self.component), **self.additions.settings.labels}

    def spec(
        self,
        deadline_seconds: int,
        pod: Mapping[str, Any],
        nodes: int = 1,
        *,
        pod_labels: Mapping[str, str] | None = None,
        watched: bool = False,
        needs_credentials: bool = False,
    ) -> dict[str, Any]:
        """Returns the spec of a Job that runs `pod` on `nodes` nodes in parallel, until success or the deadline.

        `pod_labels`: labels of its pods. None: those of the component.
        `watched`: whether this program watches the Job, which may then fail at once on a final exit status. Pulumi's
        provider 4.25 recognizes a failed Job only by BackoffLimitExceeded or DeadlineExceeded. `needs_credentials`: do
        not count a pod that ended without credentials as an attempt.
        """
        each = {"completion_mode": "Indexed", "completions": nodes, "parallelism": nodes} if nodes > 1 else {}
        [work] = pod["containers"]
        ended = {"container_name": work["name"], "operator": "In"}
        final, late = ended | {"values": list(FINAL_STATUSES)}, ended | {"values": [NO_CREDENTIALS_STATUS]}
        return {
            "active_deadline_seconds": deadline_seconds,
            "backoff_limit": _ATTEMPTS_AFTER_THE_FIRST,
            **each,
            # A replacement pod starts only after the first has terminated, so that there are never two writers.
            "pod_replacement_policy": "Failed",
            "pod_failure_policy": {
                "rules": [
                    {"action": "Ignore", "on_pod_conditions": [{"type": "DisruptionTarget"}]},
                    *([{"action": "Ignore", "on_exit_codes": late}] if needs_credentials else []),
                    *([{"action": "FailJob", "on_exit_codes": final}] if watched else []),
                ]
            },
            "template": self.additions.template({"labels": pod_labels or labels(self.instance, self.component)}, pod),
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
        """Returns a pod on the volume's node. `scratch`: names of `emptyDir` volumes that its containers share."""
        account = {} if service_account is None else {"service_account_name": service_account}
        return {
            "restart_policy": "Never",
            "enable_service_links": False,
            **self.security.pod(),
            # Clouds grant their credentials to a service account by other ways than its token for the API server.
            "automount_service_account_token": False,
            **account,
            **self._scheduling(volume),
            **({"init_containers": list(init_containers)} if init_containers else {}),
            "containers": [container],
            "volumes": [
                {"name": "program", "config_map": {"name": self.program}},
                *({"name": name, "empty_dir": {}} for name in [*scratch, *self._own_scratch]),
                volume.pod_volume(),
            ],
        }

    @property
    def _own_scratch(self) -> list[str]:
        return [_TEMPORARY["name"]] if self.security.is_restricted else []

    def _scheduling(self, volume: PlacedVolume) -> dict[str, Any]:
        """Returns the scheduling fields: the volume's nodes, and one pod on each if the nodes' names are unknown.

        Names that are known now do not limit a group, whose nodes may be replaced. Limit: a pod that starts again after
        another pod has finished may run on the other pod's node.
        """
        placement = replace(self.placement, candidates=()) if volume.of_group else self.placement
        fields = placement.scheduling(volume.hostname)
        if volume.nodes == 1:
            return fields
        same = {"label_selector": {"match_labels": labels(self.instance, self.component)}}
        required = [same | {"topology_key": HOSTNAME_LABEL}]
        apart = {"pod_anti_affinity": {"required_during_scheduling_ignored_during_execution": required}}
        return fields | {"affinity": fields.get("affinity", {}) | apart}

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
        """Returns a container with the program. `weights`: mount the weights too. `scratch`: name to mount path."""
        home = {"HOME": _TEMPORARY["mount_path"]} if self._own_scratch else {}
        variables = {**_ENVIRONMENT, **home, **(environment or {})}
        shared = [{"name": name, "mount_path": path} for name, path in (scratch or {}).items()]
        return {
            "name": name,
            "image": self.image,
            "command": list(command),
            "env": [{"name": variable, "value": variables[variable]} for variable in sorted(variables)],
            "resources": resources,
            **self.security.container(),
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [
                {"name": "program", "mount_path": STAGER, "read_only": True},
                *shared,
                *([_TEMPORARY] if self._own_scratch else []),
                *([{"name": "weights", "mount_path": WEIGHTS_MOUNT}] if weights else []),
            ],
        }
