"""Several stagers that bring the same files to their nodes: which node fetches what from the source, and who has what.

Each file belongs to one node, which fetches it from the source; the others take it from a node that has it. Everybody
works this out alone, from the listing and the order of the nodes, and asks the others what they have. When a node is
gone or stuck, each of its files goes to the next in an order that spreads them over all who are left. Wrong bytes
banish whoever gave them. A mistake in all of this costs a second download: what is right, the hashes decide.
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
"""Whoever has all waits so many times longer for a node that was never heard."""
FIRST_LOOK_SECONDS = 3.0
TELL_SECONDS = 10.0
"""So long it takes at most until a node that is done has heard that this one is, too."""
HOLDERS_LOOKED_AT = 64
ASK_SECONDS = 0.25
ASK_SECONDS_FOR_EACH = 0.01
"""A node of many is asked more rarely, so that all questions together stay 100 a second for each node."""


def identity(listing: Listing) -> str:
    """What a fleet stages, so that no two kinds of weights are mixed up."""
    lines = sorted(f"{file.path}\0{file.size}\0{file.expected_hash}\n" for file in listing.files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


def orders(files: Sequence[RemoteFile], members: int) -> dict[str, list[int]]:
    """For each path the places of all members: its owner, then who takes over from whom.

    Files go, the largest first, to the member with the fewest bytes so far. The files of one member are taken over by
    all others in turn.
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
    """The other nodes, as this one sees them; `peers` has None at this one's own place.

    `is_held_up` says whether the source gave this node nothing lately: then no other is blamed for getting nowhere.
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
        """Begin to ask the others what they have; returns when all answered once, or after some seconds."""
        for peer in self.others:
            threading.Thread(target=self._watch, args=(peer,), name=f"peer {peer.name}", daemon=True).start()
        deadline = time.monotonic() + FIRST_LOOK_SECONDS
        for _ in self.others:
            self._looked.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Ask no more."""
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
            varied = random.uniform(0.8, 1.2)  # noqa: S311 - it is no secret
            self._closed.wait(self._pause_seconds * varied)

    def holder(self, file: RemoteFile) -> Peer | None:
        """A node that can give `file` now: of those that have it, the one that gives us least just now."""
        known = self._holders[file.path]
        chosen = random.sample(known, min(HOLDERS_LOOKED_AT, len(known)))
        return min((peer for peer in chosen if peer.is_heard), key=lambda peer: peer.in_use, default=None)

    def is_mine(self, file: RemoteFile) -> bool:
        """Whether this node is the one to fetch `file` from the source."""
        for place in self._orders[file.path]:
            peer = self._peers[place]
            if peer is None:
                return True
            if not peer.is_gone(self._retries):
                return False
        return True

    def linger(self, told: Collection[int], *, for_late: bool) -> None:
        """Stay until the others need nothing more, are gone, or this process is told to end.

        `told` has the places of those who know that this node is done; the others would wait for it. For `for_late`
        nodes, those never heard, it stays a while as well.
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
