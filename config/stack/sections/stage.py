"""`heavylift:stage`: the Job that downloads and verifies the weights."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, Strict, StrictBool

from config.bandwidth import Bandwidth
from config.stack.sections.fields import ResourceName, Section, Source, Text
from stager.streams import MOST_STREAMS


class Stage(Section):
    """The Job that downloads and verifies the weights, once, before a server starts."""

    image: Text
    """Image with Python 3.11 or newer; HEAVYLIFT_STAGE_IMAGE overrides it."""
    sources: Annotated[Sequence[Source], Field(min_length=1)] = ("hub",)
    """Sources of the weights, tried in this order: `hub`, `s3://bucket/prefix`, `https://host/path`, or a directory in
    the pod of the Job."""
    native_xet: bool = False
    """Fetch whole files with the hub's own client, which uses the Xet protocol if the repository does, instead of byte
    ranges. Files are verified as always; an interrupted file starts again. Untested against a Xet server."""
    lock: Text | None = None
    """Path of a weights lock file. Only the files that it lists are staged."""
    draft_lock: Text | None = None
    """Path of a weights lock file of `model.draft`. Only the files that it lists are staged."""
    bandwidth: Bandwidth | None = None
    """Bandwidth to the hub or mirror, such as `10 Gbit/s`, which all nodes of the site share. Determines the Jobs'
    deadline."""
    fan_out: StrictBool | None = None
    """Share one download between the nodes: each node downloads a part of the files and copies the others from other
    nodes. Unset: true if several nodes are named, each has weights of its own, and there is a lock."""
    node_bandwidth: Bandwidth | None = None
    """Bandwidth between two nodes, such as `100 Gbit/s`, for `fan_out`; unset: 10 Gbit/s."""
    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] | None = None
    """Number of parallel connections of each node; unset: adapted to the throughput, 8 to 128."""
    environment: Mapping[str, str] = {}
    """Additional environment variables of the Job, such as PIP_INDEX_URL or HTTPS_PROXY. No secrets."""
    secret: ResourceName | None = None
    """Name of a Secret in the namespace whose keys become environment variables of the stager, such as
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for a mirror; unset: none."""
    service_account: ResourceName | None = None
    """Service account of the stager, to which a cloud can grant access to a mirror. With a source in S3, a pod that
    gets no credentials from it is replaced by a new one. Unset: the namespace's default, which needs no rights."""
