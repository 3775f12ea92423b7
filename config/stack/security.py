"""`heavylift:security`: the user and group of the pods that write weights."""

from typing import Annotated

from pydantic import Field, Strict

from config.stack.fields import Section

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
