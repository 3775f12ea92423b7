"""The security fields of the Jobs' pods: what Pod Security level `restricted` requires, unless they run as root.

The one place for these fields (kubernetes.io/docs/concepts/security/pod-security-standards).
"""

from dataclasses import dataclass
from typing import Any

from components.pods.weight_source import PlacedVolume
from config.stack.sections.pod import Security

DEFAULT_USER = 2000
"""Our own choice: the user that vLLM's image has for a server without root."""

_ROOT = 0


@dataclass(frozen=True)
class JobSecurity:
    """User and group of the pods that write to one kind of volume."""

    user: int | None
    """None: the image's own, which is root in `python:3.12-slim`."""
    group: int | None

    @classmethod
    def of(cls, security: Security, volume: PlacedVolume) -> "JobSecurity":
        """Fills in the defaults for a volume: the image's user for a directory of the node, else DEFAULT_USER."""
        user = security.user
        if user is None and "host_path" not in volume.source:
            user = DEFAULT_USER
        return cls(user, user if security.group is None else security.group)

    @property
    def is_restricted(self) -> bool:
        """Whether the pods have all that the level requires of the user and the containers."""
        return self.user not in (None, _ROOT)

    def pod(self) -> dict[str, Any]:
        """Returns the fields of a pod's spec."""
        if self.user is None:
            return {}
        identity = {"run_as_user": self.user, "run_as_group": self.group}
        if self.user == _ROOT:
            return {"security_context": identity}
        return {
            "security_context": {
                **identity,
                "run_as_non_root": True,
                "fs_group": self.group,
                # `Always` would change the mode and times of every file at each start.
                "fs_group_change_policy": "OnRootMismatch",
                "seccomp_profile": {"type": "RuntimeDefault"},
            }
        }

    def container(self) -> dict[str, Any]:
        """Returns the security context of a container."""
        if not self.is_restricted:
            # The mount point of a disk can belong to any user.
            return {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}}
        return {
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "read_only_root_filesystem": True,
        }
