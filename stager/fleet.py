"""Several stagers that stage the same files on their nodes: which node fetches each file, and which nodes have it.

Each file belongs to one node, which fetches it from the sources; the others read it from a node that has it. Each
node computes the owners by itself, from the listing and the order of the nodes, and polls the others for what they
have. If a node is gone or makes no progress, its files pass to other nodes, spread evenly. A node that gave wrong
bytes is asked for nothing more. A mistake here costs a second download at most: hashes decide what is accepted.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence

from stager.listing import Listing, RemoteFile
from stager.peer import Peer
from stager.stage_request import Membership

LATE_FACTOR = 2
"""Times the peer timeout: how long a complete node waits for a silent one."""
FIRST_LOOK_SECONDS = 3.0
TELL_SECONDS = 10.0
"""The longest time until a complete node hears that this one is complete, too."""
HOLDERS_LOOKED_AT = 64
ASK_SECONDS = 0.25
ASK_SECONDS_FOR_EACH = 0.01
"""More nodes are polled less often: each node gets at most 100 requests a second."""


def identity(listing: Listing) -> str:
    """Names what a fleet stages, so that two fleets never mix files."""
    lines = sorted(f"{file.path}\0{file.size}\0{file.expected_hash}\n" for file in listing.files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


def orders(files: Sequence[RemoteFile], members: int) -> dict[str, list[int]]:
    """For each path, the places of all members: its owner, then its successors in order.

    The largest file comes first, and each goes to the member with the fewest bytes so far. The files of one owner have
    all other members in turn as first successor.
    """
    bytes_of = [0] * members
    files_of = [0] * members
    found = {}
    for file in sorted(files, key=lambda file: (-file.size, file.path)):
        owner = min(range(members), key=lambda place: (bytes_of[place], files_of[place], place))
        others = [(owner + step) % members for step in range(1, members)]
        turn = files_of[owner] % max(1, members - 1)
        found[file.path] = [owner, *others[turn:], *others[:turn]]
        bytes_of[owner] += file.size
        files_of[owner] += 1
    return found


class Fleet:
    """The other nodes, as this one sees them. None in `peers`: this node.

    `is_held_up`: the sources gave this node nothing lately, so no other node is blamed for a lack of progress.
    """

    def __init__(
        self,
        membership: Membership,
        listing: Listing,
        peers: Sequence[Peer | None],
        *,
        is_held_up: Callable[[], bool],
        say: Callable[[str], None],
        stop_event: threading.Event,
    ) -> None:
        self._peers = list(peers)
        self._orders = orders(listing.files, len(peers))
        self._pause_seconds = max(ASK_SECONDS, len(peers) * ASK_SECONDS_FOR_EACH)
        self._retries = membership.timeout_seconds
        self._is_held_up = is_held_up
        self._say = say
        self._stop_event = stop_event
        self._closed = threading.Event()
        self._holders: dict[str, list[Peer]] = {file.path: [] for file in listing.files}
        self._looked = threading.Semaphore(0)
        self._started = time.monotonic()

    @property
    def others(self) -> list[Peer]:
        """All nodes but this one."""
        return [peer for peer in self._peers if peer is not None]

    def open(self) -> None:
        """Start to poll the others; returns when all were asked once, or after `FIRST_LOOK_SECONDS`."""
        for peer in self.others:
            threading.Thread(target=self._watch, args=(peer,), name=f"peer {peer.name}", daemon=True).start()
        deadline = time.monotonic() + FIRST_LOOK_SECONDS
        for _ in self.others:
            self._looked.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Stop polling."""
        self._closed.set()

    def _watch(self, peer: Peer) -> None:
        heard, gone, looked = False, False, time.monotonic()
        while not (self._closed.is_set() or self._stop_event.is_set()):
            for path in peer.look():
                if peer not in self._holders[path]:
                    self._holders[path].append(peer)
            if self._is_held_up():
                peer.excuse(time.monotonic() - looked)
            looked = time.monotonic()
            if peer.is_heard and not heard:
                self._say(f"{peer.name} is there")
            heard = peer.is_heard
            if peer.is_gone(self._retries) and not (gone or peer.done or peer.banished):
                what = "progress" if peer.was_heard else "answer"
                self._say(f"{peer.name}: no {what} for {self._retries:g} s; the others fetch what it was to fetch")
            gone = peer.is_gone(self._retries)
            self._looked.release()
            varied = random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            self._closed.wait(self._pause_seconds * varied)

    def holder(self, file: RemoteFile) -> Peer | None:
        """A node that can give `file` now: of those that have it, the one with the fewest streams."""
        known = self._holders[file.path]
        chosen = random.sample(known, min(HOLDERS_LOOKED_AT, len(known)))
        return min((peer for peer in chosen if peer.is_heard), key=lambda peer: peer.in_use, default=None)

    def is_mine(self, file: RemoteFile) -> bool:
        """Whether this node is to fetch `file` from the sources."""
        for place in self._orders[file.path]:
            peer = self._peers[place]
            if peer is None:
                return True
            if not peer.is_gone(self._retries):
                return False
        return True

    def linger(self, told: Collection[int], *, for_late: bool) -> None:
        """Wait until every other node is complete or gone, or `stop_event` is set.

        `told` holds the places of the nodes that know that this one is complete; the others would wait for it.
        `for_late`: wait for nodes that were never heard, too.
        """
        said: list[str] = []
        while not self._stop_event.is_set():
            needy = [peer.name for peer in self.others if self._is_needy(peer, told, for_late)]
            if not needy:
                return
            if needy != said:
                self._say(f"staged; stays for the nodes that fetch from here: {', '.join(needy)}")
                said = needy
            self._stop_event.wait(0.2)

    def _is_needy(self, peer: Peer, told: Collection[int], for_late: bool) -> bool:
        if peer.banished or (peer.done and (peer.place in told or peer.is_gone(TELL_SECONDS))):
            return False
        if not peer.was_heard:
            return for_late and time.monotonic() - self._started < LATE_FACTOR * self._retries
        return not peer.is_gone(LATE_FACTOR * self._retries)
