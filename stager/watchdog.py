"""Ends slow reads from outside: a socket's own timeout restarts with every byte.

So a server that sends one byte now and then would hold a stream forever. Each read that has to end as a whole has a
time limit, after which its socket is shut down.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

LOOK_SECONDS = 0.25


class Watchdog:
    """Calls a function when its time limit is over; one thread for all, idle if there is nothing to do."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[object, tuple[float, Callable[[], object]]] = {}
        self._thread = threading.Thread()

    @contextlib.contextmanager
    def within(self, seconds: float, hang_up: Callable[[], object]) -> Iterator[None]:
        """Call `hang_up` if the block takes longer than `seconds`; its read then fails."""
        key = object()
        with self._changed:
            self._watched[key] = (time.monotonic() + seconds, hang_up)
            if not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(key, None)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._watched))
                now = time.monotonic()
                late = [(key, hang_up) for key, (deadline, hang_up) in self._watched.items() if deadline < now]
                for key, _ in late:
                    del self._watched[key]
            for _, hang_up in late:
                with contextlib.suppress(Exception):  # the block may have ended meanwhile
                    hang_up()
            time.sleep(LOOK_SECONDS)


WATCHDOG = Watchdog()


def _answer_seconds(timeout: object) -> float:
    """Twice the time for one byte: for the first byte, and for the rest of the headers."""
    return 2 * timeout if isinstance(timeout, int | float) else float("inf")


class _Connection(HTTPConnection):
    """All headers must arrive within the time for one answer."""

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as urllib3 has it
        with WATCHDOG.within(_answer_seconds(self.timeout), lambda: self.sock.shutdown(socket.SHUT_RDWR)):
            return super().getresponse()


class _SecureConnection(HTTPSConnection):
    """The same over TLS."""

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as urllib3 has it
        with WATCHDOG.within(_answer_seconds(self.timeout), lambda: self.sock.shutdown(socket.SHUT_RDWR)):
            return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def watch(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """`manager`, with the time limit for headers on its new connections."""
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return manager
