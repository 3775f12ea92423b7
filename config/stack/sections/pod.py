"""`heavylift:pod` and `heavylift:security`: what a stack adds to its pods, and the user and rights that they have."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, Strict

from config.stack.sections.fields import Count, ResourceName, Section

Identity = Annotated[int, Strict(), Field(ge=0, lt=2**31 - 1)]
"""A numeric user or group, as pods have it."""


class SecurityProfile(StrEnum):
    """What the pods' security fields allow, by the names of the Pod Security levels."""

    RESTRICTED = "restricted"
    BASELINE = "baseline"
    NONE = "none"


class Security(Section):
    """The user and rights of all pods. By default they meet the Pod Security level `restricted`, but for what a
    directory of the node needs: its volume, and Jobs of the image's own user."""

    profile: SecurityProfile | None = None
    """`restricted`: no root, a read-only root file system, no capabilities, the runtime's seccomp profile. `baseline`:
    the user and file system of the images, without privilege escalation. `none`: no security fields, for clusters that
    set them. Unset: `restricted`; for the Jobs of `weights.kind: host-path` and of user 0, `baseline`."""
    user: Identity | None = None
    """Numeric user of the pods. 0: root for the Jobs, for storage that only root can write; the server then runs as
    user 2000. Unset: 2000; for the Jobs of `weights.kind: host-path` the image's own, which is usually root, as the
    nodes' directories are root's. `baseline` and `restricted` refuse a `hostPath` volume to any user."""
    group: Identity | None = None
    """Numeric group of the pods. Kubernetes lets it write to a claim (`fsGroup`) if the storage supports that. Devices
    of AMD GPUs may need the group `render` of the nodes. Unset: the number of the user."""


class PodSettings(Section):
    """Additions to pods, for what a cluster asks of every pod."""

    pull_secrets: Sequence[ResourceName] = ()
    """Names of Secrets in the namespace with the credentials of the images' registry."""
    runtime_class: ResourceName | None = None
    """RuntimeClass of the pods, such as `nvidia`. Unset: the cluster's default."""
    priority_class: ResourceName | None = None
    """PriorityClass of the pods. Unset: the cluster's default."""
    labels: Mapping[str, str] = {}
    """Labels of the pods, and of the Job, Deployment or LeaderWorkerSet that creates them, such as
    `kueue.x-k8s.io/queue-name`."""
    annotations: Mapping[str, str] = {}
    """Annotations of the pods."""
    cpu_limit: Count | None = None
    """CPU limit of each container, for a namespace whose quota requires one. Unset: no limit."""
    patch: Mapping[str, Any] = {}
    """Further fields of the pods' spec, with the names of the Kubernetes API, such as `hostAliases`, or a volume and
    its mount. Objects merge by key; containers, volumes, mounts and environment by name. A field that the program or
    another key sets is refused."""


class Pod(Section):
    """Additions to the pods of the server and of the Jobs."""

    server: PodSettings = PodSettings()
    """The server's pods. A change restarts the server."""
    stage: PodSettings = PodSettings()
    """The pods of the Jobs that stage and prune weights."""
