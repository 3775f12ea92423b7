"""`heavylift:pod` and `heavylift:security`: what a stack adds to its pods, and the user that its Jobs run as."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, Strict

from config.stack.sections.fields import Count, ResourceName, Section

Identity = Annotated[int, Strict(), Field(ge=0, lt=2**31 - 1)]
"""A numeric user or group, as pods have it."""


class Security(Section):
    """The user and group of the Jobs that stage and prune weights."""

    user: Identity | None = None
    """Numeric user of the Jobs' pods. A user other than 0 gets what Pod Security level `restricted` requires. 0: root,
    for storage that only root can write. Unset: 2000; for `weights.kind: host-path` the image's own, which is usually
    root, as the nodes' directories are root's. `baseline` and `restricted` refuse a `hostPath` volume to any user."""
    group: Identity | None = None
    """Numeric group of the Jobs' pods. Kubernetes lets it write to a claim (`fsGroup`) if the storage supports that.
    Unset: the number of the user."""


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
