"""Another stager of the fleet: whether it answers, which files it has, and how to read them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from stager.errors import SourceRefusal, SourceTrouble
from stager.listing import Listing, RemoteFile
from stager.ranges import Address, AddressStale, RangeReader
from stager.stage_request import Membership

ANSWER_SECONDS = 5.0
HEARD_SECONDS = 10.0
"""How long an answer of a node counts."""
REST_SECONDS = 1.0
MOST_FAILURES = 10
NUMBER_BYTES = 12
"""The most that one number takes in an answer; longer answers are refused."""


class Peer:
    """The stager at `place` among the members; `reader` reads its files."""

    def __init__(
        self, place: int, membership: Membership, listing: Listing, identity: str, *, reader: RangeReader
    ) -> None:
        self.place = place
        self.name, url = membership.members[place]
        self.done = False
        """Whether it has all files."""
        self.banished = False
        """Whether it gave wrong bytes; it is asked for no more."""
        self.in_use = 0
        """How many streams read from it now."""
        self.was_heard = False
        self._me = membership.place
        self._base = f"{url}/{identity}"
        self._headers = {"Authorization": f"Bearer {membership.secret}"}
        self._numbers = {file.path: number for number, file in enumerate(listing.files)}
        self._paths = dict(enumerate(file.path for file in listing.files))
        self._reader = reader
        self._pool = urllib3.PoolManager(maxsize=1)
        self._seen = 0
        self._run = ""
        self._progress = -1
        self._heard_at = self._moved_at = time.monotonic()
        self._failures = 0
        self._rests_until = 0.0
        self._lock = threading.Lock()

    def look(self) -> list[str]:
        """Poll its files and progress; returns the paths that are new. Empty as well: no answer."""
        try:
            status = self._ask()
            news = [self._paths[int(number)] for number in status["have"]]
            run, progress, done = str(status["run"]), int(status["progress"]), bool(status["done"])
        except (HTTPError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return []
        now = time.monotonic()
        with self._lock:
            if run != self._run:  # a new process: its order of files differs
                self._run, self._seen, news = run, 0, [] if self._seen else news
            self._seen += len(news)
            if news or progress != self._progress or not self.was_heard:
                self._moved_at = now
            self._progress, self.done = progress, done
            self._heard_at, self.was_heard = now, True
        return news

    def _ask(self) -> Mapping[str, Any]:
        response = self._pool.request(
            "GET",
            f"{self._base}/status?since={self._seen}&node={self._me}",
            headers=self._headers,
            timeout=ANSWER_SECONDS,
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            body = response.read(1024 + NUMBER_BYTES * len(self._paths))
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}")
            status: Mapping[str, Any] = json.loads(body)
            return status
        finally:
            response.release_conn()

    def excuse(self, seconds: float) -> None:
        """Do not count `seconds` of missing progress: this node made none either."""
        with self._lock:
            self._moved_at = min(time.monotonic(), self._moved_at + seconds)

    @property
    def is_heard(self) -> bool:
        """Whether it answered lately and may be asked for files."""
        return (
            self.was_heard
            and not self.banished
            and time.monotonic() >= self._rests_until
            and time.monotonic() - self._heard_at < HEARD_SECONDS
        )

    def is_lost(self, timeout_seconds: float) -> bool:
        """Whether it gave no answer for so long."""
        return time.monotonic() - self._heard_at > timeout_seconds

    def is_gone(self, timeout_seconds: float) -> bool:
        """Whether others take over its files: no answer or no progress for so long, or banished."""
        return self.banished or self.is_lost(timeout_seconds) or time.monotonic() - self._moved_at > timeout_seconds

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`; raises `SourceTrouble` for any failure."""
        with self._lock:
            self.in_use += 1
        try:
            address = Address(f"{self._base}/files/{self._numbers[file.path]}", self._headers)
            yield from self._reader.read(address, file, start, end)
            self._failures = 0
        except (SourceRefusal, AddressStale) as error:
            raise SourceTrouble(str(error)) from None
        finally:
            with self._lock:
                self.in_use -= 1

    def note_trouble(self) -> None:
        """Ask for no file for some seconds: a read failed."""
        with self._lock:
            self._failures = min(self._failures + 1, MOST_FAILURES)
            self._rests_until = time.monotonic() + REST_SECONDS * self._failures
