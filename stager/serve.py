"""Serves verified files to the other stagers of a fleet: ranges by sendfile, to holders of the fleet's secret only.

`GET /<listing>/status?since=N&node=I` lists the verified files, `GET /<listing>/files/<number>` returns one. Numbers
are places in the listing, so no path comes from the network. A file that is not verified yet gives 503.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from stager.listing import RemoteFile

MOST_CONNECTIONS = 1024
IDLE_SECONDS = 30.0
_RANGE = re.compile(r"bytes=(\d{1,19})-(\d{1,19})", re.ASCII)
_STATUS = re.compile(r"since=(\d{1,9})&node=(\d{1,6})", re.ASCII)

Open = Callable[[RemoteFile], int]


class Shelf:
    """The files that may be served; shared by all connections.

    `open_file` returns a descriptor of a file below the staged directory and follows no links.
    """

    def __init__(self, identity: str, files: tuple[RemoteFile, ...], open_file: Open, secret: str) -> None:
        self.identity = identity
        self.files = files
        self.open_file = open_file
        self.progress: Callable[[], int] = lambda: 0
        """Grows while this stager progresses."""
        self.done = False
        """Whether this stager has all files."""
        self._run = os.urandom(8).hex()
        self.told: set[int] = set()
        """The places of the nodes that know that `done` is set."""
        self._expected = f"Bearer {secret}".encode()
        self._numbers = {file.path: number for number, file in enumerate(files)}
        self._verified: list[int] = []
        self._known: set[int] = set()
        self._lock = threading.Lock()

    def add(self, file: RemoteFile) -> None:
        """Serve `file`: it has its own name and the right hash."""
        with self._lock:
            number = self._numbers[file.path]
            if number not in self._known:
                self._known.add(number)
                self._verified.append(number)

    def admits(self, authorization: str) -> bool:
        """Whether a request carries the fleet's secret."""
        return hmac.compare_digest(self._expected, authorization.encode("latin-1", "replace"))

    def status(self, since: int, node: int) -> dict[str, object]:
        """The numbers of the verified files after the first `since`, and this stager's progress."""
        with self._lock:
            if self.done:
                self.told.add(node)
            return {"run": self._run, "have": self._verified[since:], "progress": self.progress(), "done": self.done}

    def has(self, number: int) -> bool:
        """Whether file `number` may be served."""
        with self._lock:
            return number in self._known


class FileServer:
    """Serves a shelf on `port` (0: any free one) of all addresses of this machine in a `with` block."""

    def __init__(self, shelf: Shelf, port: int) -> None:
        handler = type("Handler", (_Handler,), {"shelf": shelf, "places": threading.Semaphore(MOST_CONNECTIONS)})
        self._server = _Server(("", port), handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="serve", daemon=True)

    def __enter__(self) -> FileServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore broken connections: the peer retries."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    shelf: Shelf
    places: threading.Semaphore

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self) -> None:
        if not self.places.acquire(blocking=False):
            return
        try:
            super().handle()
        finally:
            self.places.release()

    def do_GET(self) -> None:
        if not self.shelf.admits(self.headers.get("Authorization", "")):
            self._refuse(HTTPStatus.UNAUTHORIZED)
            return
        parts = urlsplit(self.path)
        way = parts.path.split("/")[1:]
        if way[:1] != [self.shelf.identity]:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif way[1:] == ["status"] and (since := _STATUS.fullmatch(parts.query)):
            self._send_status(int(since[1]), int(since[2]))
        elif len(way) == 3 and way[1] == "files" and way[2].isdecimal() and len(way[2]) < 10:
            self._send_file(int(way[2]))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _send_status(self, since: int, node: int) -> None:
        body = json.dumps(self.shelf.status(since, node)).encode()
        self._begin(HTTPStatus.OK, len(body))
        self.wfile.write(body)

    def _send_file(self, number: int) -> None:
        if number >= len(self.shelf.files):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        file = self.shelf.files[number]
        wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
        start, end = (int(wanted[1]), int(wanted[2]) + 1) if wanted else (0, 0)
        if not 0 <= start < end <= file.size:
            self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        elif not self.shelf.has(number):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._send_range(file, start, end)

    def _send_range(self, file: RemoteFile, start: int, end: int) -> None:
        try:
            descriptor = self.shelf.open_file(file)
        except OSError:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        with os.fdopen(descriptor, "rb", buffering=0) as content:
            where = f"bytes {start}-{end - 1}/{file.size}"
            self._begin(HTTPStatus.PARTIAL_CONTENT, end - start, **{"Content-Range": where})
            if self.connection.sendfile(content, start, end - start) != end - start:
                self.close_connection = True

    def _begin(self, status: HTTPStatus, length: int, **headers: str) -> None:
        self.send_response_only(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus) -> None:
        self._begin(status, 0, **({"Retry-After": "1"} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}))

    def log_message(self, *_: object) -> None:
        """Log nothing."""
