"""Another stager of the fleet, as this one knows it: whether it is there, what it has, and how to read it."""

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
"""What a node said counts for so long."""
REST_SECONDS = 1.0
MOST_FAILURES = 10
NUMBER_BYTES = 12
"""A file's number takes less in an answer; longer answers are not read."""


class Peer:
    """The stager at `place` among the members; `reader` reads its files."""

    def __init__(
        self, place: int, membership: Membership, listing: Listing, identity: str, *, reader: RangeReader
    ) -> None:
        self.place = place
        self.name, url = membership.members[place]
        self.done = False
        """Whether it needs nothing more."""
        self.banished = False
        """Whether it gave wrong bytes, and is asked for nothing more."""
        self.in_use = 0
        """How many streams read from it just now."""
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
        """Ask what it has and how it gets on; the paths that it has since the last time. No answer is one as well."""
        try:
            status = self._ask()
            news = [self._paths[int(number)] for number in status["have"]]
            run, progress, done = str(status["run"]), int(status["progress"]), bool(status["done"])
        except (HTTPError, OSError, ValueError, KeyError, TypeError, RecursionError):
            return []
        now = time.monotonic()
        with self._lock:
            if run != self._run:  # another process, which has its files in another order
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
        """For so long we got nowhere ourselves: what held us up may have held up this node, too."""
        with self._lock:
            self._moved_at = min(time.monotonic(), self._moved_at + seconds)

    @property
    def is_heard(self) -> bool:
        """Whether it answered lately, and may be asked for files."""
        return (
            self.was_heard
            and not self.banished
            and time.monotonic() >= self._rests_until
            and time.monotonic() - self._heard_at < HEARD_SECONDS
        )

    def is_lost(self, timeout_seconds: float) -> bool:
        """Whether it was silent for so long."""
        return time.monotonic() - self._heard_at > timeout_seconds

    def is_gone(self, timeout_seconds: float) -> bool:
        """Whether others are to fetch what it was to fetch: it was silent, or got nowhere, for so long."""
        return self.banished or self.is_lost(timeout_seconds) or time.monotonic() - self._moved_at > timeout_seconds

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`; raises `SourceTrouble` whatever is wrong."""
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
        """A read failed: for some seconds no file is asked for."""
        with self._lock:
            self._failures = min(self._failures + 1, MOST_FAILURES)
            self._rests_until = time.monotonic() + REST_SECONDS * self._failures
