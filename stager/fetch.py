"""A transfer of files from the sources of a request: in the process of the run, or in one of its workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stager.listing import Listing
from stager.part import Part
from stager.progress import Progress
from stager.ranges import RangeReader
from stager.source import sources
from stager.source_pool import SourcePool
from stager.stage_request import StageRequest
from stager.stopping import pause_until
from stager.streams import Streams
from stager.transfer import Transfer

if TYPE_CHECKING:
    from stager.sharing import Sharing


def new_transfer(
    request: StageRequest,
    listing: Listing,
    parts: Sequence[Part],
    *,
    streams: Streams,
    progress: Progress,
    require_lease: Callable[[], None],
    stop_event: threading.Event,
    sharing: Sharing | None = None,
) -> Transfer:
    """The transfer of `parts`, the files of `listing`, from the sources of `request` and, in a fleet, other nodes."""
    reader = RangeReader(streams=streams.most, stall_seconds=request.stall_seconds)
    asked, pause = sources(request.sources, listing, reader), pause_until(stop_event)
    if sharing:
        kept = {part.file.path for part in parts if part.bytes_on_disk}
        source_pool: SourcePool = sharing.source_pool(asked, kept, say=progress.say, pause=pause)
    else:
        source_pool = SourcePool(asked, say=progress.say, pause=pause)
    return Transfer(
        parts, source_pool, progress=progress, require_lease=require_lease, stop_event=stop_event, streams=streams
    )
