"""One stager's part in a fleet: it serves its verified files to the other nodes, and reads theirs.

Opened before the first fetch, closed when no node needs it any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from stager.errors import SourceTrouble, StagerError
from stager.fleet import Fleet, identity
from stager.listing import Listing, RemoteFile
from stager.peer import Peer
from stager.progress import Progress
from stager.ranges import RangeReader
from stager.serve import FileServer, Shelf
from stager.source import Source
from stager.source_pool import SourcePool
from stager.stage_request import Membership
from stager.streams import MOST_STREAMS

HELD_AT_ONCE = 16
"""Files that all nodes together fetch from the sources at once; few, so that the first are soon complete."""
LEAST_HELD_AT_ONCE = 2
HELD_UP_SECONDS = 5.0
WAIT_SECONDS = 0.1


class Sharing:
    """This node's file server and its view of the others, while the `with` block runs.

    `open_file` opens a file of the listing in the staged directory, following no links.
    """

    def __init__(
        self,
        membership: Membership,
        listing: Listing,
        open_file: Callable[[RemoteFile], int],
        *,
        stall_seconds: float,
        progress: Progress,
        stop_event: threading.Event,
    ) -> None:
        self._listing = listing
        self._progress = progress
        self._members = len(membership.members)
        name = identity(listing)
        self._shelf = Shelf(name, listing.files, open_file, membership.secret)
        self._shelf.progress = lambda: progress.fetched + progress.reused
        try:
            self._server = FileServer(self._shelf, membership.port)
        except OSError as error:
            raise StagerError(f"port {membership.port}: cannot be listened on: {error.strerror}") from None
        reader = RangeReader(streams=MOST_STREAMS, stall_seconds=stall_seconds, inside=True)
        peers = [
            None if place == membership.place else Peer(place, membership, listing, name, reader=reader)
            for place in range(self._members)
        ]
        self._own: set[str] = set()
        self._moved = (-1, time.monotonic())
        self.fleet = Fleet(
            membership, listing, peers, is_held_up=self._is_held_up, say=progress.say, stop_event=stop_event
        )
        self._staged_before = False

    def __enter__(self) -> Sharing:
        self._server.__enter__()
        self.fleet.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.close()
        self._server.__exit__()

    def source_pool(
        self, sources: Sequence[Source], kept: set[str], *, say: Callable[[str], None], pause: Callable[[float], None]
    ) -> FleetSourcePool:
        """The sources and the other nodes as one pool; the volume already has some bytes of the paths `kept`."""
        at_once = max(LEAST_HELD_AT_ONCE, HELD_AT_ONCE // self._members)
        return FleetSourcePool(sources, self.fleet, self._shelf, self._own, at_once, kept, say=say, pause=pause)

    def offer_all(self) -> None:
        """Serve all files: an earlier run verified them."""
        for file in self._listing.files:
            self._shelf.add(file)
        self._staged_before = True

    def linger(self) -> None:
        """Serve the others while they need files; this node is complete."""
        self._shelf.done = True
        self._progress.total = 0
        self.fleet.linger(self._shelf.told, for_late=not self._staged_before)

    def _is_held_up(self) -> bool:
        """Whether this node fetches from the source and gets nothing."""
        count, since = self._moved
        now = time.monotonic()
        if self._progress.fetched != count:
            self._moved = (self._progress.fetched, now)
            return False
        return bool(self._own) and now - since > HELD_UP_SECONDS


class FleetSourcePool(SourcePool):
    """Reads each file from a node that has it, or from the sources if this node is to fetch it.

    `own` holds the paths that this node fetches from the sources now, at most `at_once`.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        fleet: Fleet,
        shelf: Shelf,
        own: set[str],
        at_once: int,
        kept: set[str],
        *,
        say: Callable[[str], None],
        pause: Callable[[float], None],
    ) -> None:
        super().__init__(sources, say=say, pause=pause)
        self._fleet = fleet
        self._shelf = shelf
        self._own = own
        self._at_once = at_once
        self._kept = kept

    def may_be_claimed(self, file: RemoteFile) -> bool:
        """Whether a node has `file`, or this one is to fetch it and fetches fewer than `at_once`."""
        if file.path in self._kept or self._fleet.holder(file):
            return True
        if len(self._own) >= self._at_once or not self._fleet.is_mine(file):
            return False
        self._own.add(file.path)
        return True

    def read(self, file: RemoteFile, start: int, end: int, *, skip: int = 0) -> Iterator[bytes]:
        """The bytes from `start` up to `end`; waits if another node is to fetch them and none has them."""
        while start < end:
            peer = self._fleet.holder(file)
            if peer is None:
                if self._fleet.is_mine(file):
                    yield from super().read(file, start, end, skip=skip)
                    return
                self._pause(WAIT_SECONDS)
                continue
            try:
                for chunk in peer.read(file, start, end):
                    start += len(chunk)
                    self._origins[file.path].add(peer.name)
                    yield chunk
                    if peer.banished:
                        break
            except SourceTrouble as trouble:
                self._say(f"{peer.name}: {trouble}")
                peer.note_trouble()

    def ended(self, file: RemoteFile, *, verified: bool) -> None:
        """Serve `file` to the others, if verified."""
        self._own.discard(file.path)
        if verified:
            self._shelf.add(file)

    def reject(self, file: RemoteFile) -> bool:
        """Banish the nodes that gave bytes of `file`; if none did, reject it as any source pool."""
        givers = [peer for peer in self._fleet.others if peer.name in self._origins[file.path]]
        if not givers:
            return super().reject(file)
        for peer in givers:
            if not peer.banished:
                self._say(f"{peer.name}: gave wrong bytes of {file.path}; asking it for nothing more")
            peer.banished = True
        self.forget_origins(file)
        return True
