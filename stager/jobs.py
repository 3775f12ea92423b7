"""The files of one run and the state of each; finds the next work for a stream without a scan of all files.

Nothing here locks: the caller holds the transfer's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from stager.listing import RemoteFile
from stager.part import BLOCK_BYTES, Part

LEAST_BLOCK_BYTES = 4 * 1024 * 1024
"""Each block is one request, which waits for its first byte."""
BLOCKS_PER_STREAM = 4
LOOKED_AT = 64
"""How many waiting files are checked for whether they can be had."""


class State(Enum):
    """The state of one file."""

    WAITING = auto()
    TAKEN = auto()  # one stream begins or finishes it, alone
    FETCHING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(eq=False)
class Job:
    """One file of the run: bytes kept of an earlier run, bytes given out in blocks, streams that fetch."""

    part: Part
    state: State = State.WAITING
    kept: int = 0
    given: int = 0
    streams: int = 0

    @property
    def file(self) -> RemoteFile:
        """The file as its repository lists it."""
        return self.part.file

    @property
    def has_several_blocks(self) -> bool:
        """Whether more than one stream could fetch what is not given out yet."""
        return self.file.size - self.given > LEAST_BLOCK_BYTES

    def has_block_to_give(self, block_bytes: int) -> bool:
        """Whether one more stream may fetch; all stay within two blocks per stream ahead of the hash."""
        ahead = self.given - self.part.hashed // block_bytes * block_bytes
        return self.given < self.file.size and ahead < 2 * block_bytes * (self.streams + 1)

    def give_block(self, block_bytes: int) -> tuple[int, int]:
        """The next block for the calling stream: start and end."""
        start = self.given
        self.given = min((start // block_bytes + 1) * block_bytes, self.file.size)
        self.streams += 1
        return start, self.given


class Jobs:
    """All files of a run, in the order in which they start."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.all = [Job(part) for part in parts]
        self._waiting = deque(self.all)
        self._fetching: dict[Job, None] = {}
        self._taken = 0
        self._ended = 0
        self._ungiven = sum(job.file.size for job in self.all)

    @property
    def all_ended(self) -> bool:
        """Whether every file is complete or failed."""
        return self._ended == len(self.all)

    @property
    def begun(self) -> int:
        """How many files are in progress."""
        return self._taken + len(self._fetching)

    @property
    def fetching(self) -> list[Job]:
        """The files whose blocks streams may fetch."""
        return list(self._fetching)

    def take_waiting(self, can_be_had: Callable[[RemoteFile], bool]) -> Job | None:
        """The next file, for the caller alone. None: none of the next can be had yet."""
        for place in range(min(LOOKED_AT, len(self._waiting))):
            if can_be_had(self._waiting[place].file):
                job = self._waiting[place]
                del self._waiting[place]
                self.set(job, State.TAKEN)
                return job
        self._waiting.rotate(-LOOKED_AT)
        return None

    def start(self, job: Job, streams: int) -> tuple[int, int] | None:
        """Let streams fetch the file; returns the first block, for the calling stream. None: nothing is missing."""
        if job.given == job.file.size:
            return None
        self.set(job, State.FETCHING)
        return self._give_block(job, self._block_bytes(streams))

    def take_block(self, streams: int) -> tuple[Job, int, int] | None:
        """A block of the file with the fewest streams: file, start and end."""
        length = self._block_bytes(streams)
        giving = min(
            (job for job in self._fetching if job.has_block_to_give(length)), key=lambda job: job.streams, default=None
        )
        if giving is None:
            return None
        return giving, *self._give_block(giving, length)

    def _give_block(self, job: Job, length: int) -> tuple[int, int]:
        start, end = job.give_block(length)
        self._ungiven -= end - start
        return start, end

    def set(self, job: Job, state: State) -> None:
        """Set the state of a file; a failed one stays failed."""
        if job.state is State.FAILED:
            return
        if job.state is State.TAKEN:
            self._taken -= 1
        self._fetching.pop(job, None)
        job.state = state
        if state is State.TAKEN:
            self._taken += 1
        elif state is State.FETCHING:
            self._fetching[job] = None
        elif state in (State.DONE, State.FAILED):
            self._ended += 1
            self._ungiven -= job.file.size - job.given
            job.given = job.file.size

    def note_kept(self, job: Job) -> None:
        """Count the hashed start of the file as kept."""
        self._ungiven -= job.part.hashed - job.given
        job.kept = job.given = job.part.hashed

    def restart(self, job: Job) -> None:
        """Fetch all bytes of the file again."""
        self._ungiven += job.given
        job.kept = job.given = 0

    def _block_bytes(self, streams: int) -> int:
        """The length of the next block: shorter if there are too few long ones for all streams."""
        length = BLOCK_BYTES
        while length > LEAST_BLOCK_BYTES and self._ungiven < length * streams * BLOCKS_PER_STREAM:
            length //= 2
        return length
