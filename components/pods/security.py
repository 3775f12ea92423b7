"""The security fields of every pod: what Pod Security level `restricted` requires, as far as a pod can have it.

The one place for these fields (kubernetes.io/docs/concepts/security/pod-security-standards). A directory of the node
usually belongs to root, and every level but `privileged` refuses it as a volume. The server of such weights, which only
reads them, has all of `restricted` but the volume; its Jobs keep the image's own user.
"""

from dataclasses import dataclass, replace
from typing import Any

from components.pods.weight_source import PlacedVolume
from config.stack.sections.pod import Security, SecurityProfile

DEFAULT_USER = 2000
"""Our own choice: the user that vLLM's image has for a server without root."""

_ROOT = 0


@dataclass(frozen=True)
class PodSecurity:
    """User, group and rights of one kind of pod."""

    profile: SecurityProfile
    user: int | None
    """None: the image's own, which is root in `python:3.12-slim` and in the images of the engines."""
    group: int | None
    writes: bool = True
    """Whether the pod writes to the volume, and so owns a claim by its group."""
    makes_for: int | None = None
    """User that the pod makes a directory for. None: none but its own."""

    @classmethod
    def of_jobs(cls, security: Security, volume: PlacedVolume) -> "PodSecurity":
        """Fills in the defaults for the Jobs of a volume: a directory of the node keeps the image's user."""
        user = security.user
        if user is None and "host_path" not in volume.source and _may_be_restricted(security):
            user = DEFAULT_USER
        restricted = user not in (None, _ROOT) and _may_be_restricted(security)
        profile = SecurityProfile.RESTRICTED if restricted else security.profile or SecurityProfile.BASELINE
        return cls(profile, user, _group(user, security))

    @classmethod
    def of_stage(cls, security: Security, volume: PlacedVolume, *, makes_cache: bool) -> "PodSecurity":
        """Fills in the defaults for the Job that stages, which can also make a directory for the server's user."""
        user = cls.of_server(security).user if makes_cache else None
        return replace(cls.of_jobs(security, volume), makes_for=user)

    @classmethod
    def of_server(cls, security: Security) -> "PodSecurity":
        """Fills in the defaults for a server, which reads weights of any user. User 0 is for the Jobs alone."""
        if not _may_be_restricted(security):
            return cls(
                security.profile or SecurityProfile.BASELINE, security.user, _group(security.user, security), False
            )
        user = security.user or DEFAULT_USER
        return cls(SecurityProfile.RESTRICTED, user, _group(user, security), False)

    @property
    def is_restricted(self) -> bool:
        """Whether the pods have all that the level requires of the user and the containers."""
        return self.profile is SecurityProfile.RESTRICTED

    def pod(self) -> dict[str, Any]:
        """Returns the fields of a pod's spec."""
        fields: dict[str, Any] = {}
        if self.user is not None:
            fields = {"run_as_user": self.user, "run_as_group": self.group}
        if self.writes and self.user not in (None, _ROOT):
            # `Always` would change the mode and times of every file at each start.
            fields |= {"fs_group": self.group, "fs_group_change_policy": "OnRootMismatch"}
        if self.is_restricted:
            fields |= {"run_as_non_root": True, "seccomp_profile": {"type": "RuntimeDefault"}}
        return {"security_context": fields} if fields else {}

    def container(self) -> dict[str, Any]:
        """Returns the fields of a container."""
        if self.profile is SecurityProfile.NONE:
            return {}
        fields: dict[str, Any] = {"allow_privilege_escalation": False}
        if self.is_restricted:
            fields |= {"capabilities": {"drop": ["ALL"]}, "read_only_root_filesystem": True}
        elif self.writes:
            # The mount point of a disk can belong to any user.
            others = ["CHOWN"] if self.makes_for not in (None, self.user) else []
            fields |= {"capabilities": {"drop": ["ALL"], "add": [*others, "DAC_OVERRIDE"]}}
        return {"security_context": fields}


def _may_be_restricted(security: Security) -> bool:
    return security.profile in (None, SecurityProfile.RESTRICTED)


def _group(user: int | None, security: Security) -> int | None:
    return user if security.group is None else security.group
