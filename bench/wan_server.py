"""A server behind a slow network: `python -m bench.wan_server ROOT PORT RTT RATE [CERTIFICATE KEY]`.

Each connection waits one round trip before its first byte and before each response, has TCP's slow start, and carries
at most RATE bytes per second. The number of connections is not limited. Implements the model hub's API, and S3's list,
HEAD and ranged GET. A test double: neither a real network with 40 ms nor `tc netem` was available.
"""

import json
import os
import re
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = "acme/bench"
BUCKET = "bench"
INITIAL_WINDOW = 14_480.0  # ten segments, https://www.rfc-editor.org/rfc/rfc6928
TICK_SECONDS = 0.01
BURST_SECONDS = 0.2
BURST_BYTES = 65_536
TLS_BYTES = 256 * 1024
RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Line:
    """A connection's round trip in seconds and rate in bytes per second."""

    round_trip: float
    rate: float


class Pace:
    """The number of bytes that a connection may send."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._window = INITIAL_WINDOW
        self._credit = 0.0
        self._last = time.monotonic()

    def begin(self) -> None:
        """Starts a response."""
        self._credit, self._last = 0.0, time.monotonic()

    def allowed(self) -> int:
        """Waits one tick, and returns the number of bytes that may be sent."""
        time.sleep(TICK_SECONDS)
        now = time.monotonic()
        passed, self._last = now - self._last, now
        rate = min(self._window / self._line.round_trip, self._line.rate)
        self._credit = min(self._credit + rate * passed, rate * BURST_SECONDS + BURST_BYTES)
        if rate < self._line.rate:
            self._window *= 2 ** (passed / self._line.round_trip)
        return int(self._credit)

    def spend(self, count: int) -> None:
        """Subtracts sent bytes."""
        self._credit -= count


class Answers:
    """The response to each path. Files are in `root/source`."""

    def __init__(self, root: Path) -> None:
        self.root = root / "source"
        lock = json.loads((root / "lock.json").read_text())
        self.files = {entry["path"]: entry for entry in lock["files"]}
        self._info = (root / "info.json").read_bytes()
        self._tree = (root / "tree.json").read_bytes()
        self._list = self._listing().encode()

    def _listing(self) -> str:
        contents = "".join(
            f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>x</ETag>"
            f"<Size>{entry['size']}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for name, entry in self.files.items()
        )
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix></Prefix><KeyCount>{len(self.files)}</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        )

    def body(self, path: str) -> bytes | None:
        """Returns the body of a response that is not a file. None: a file."""
        if path.startswith(f"/api/models/{REPOSITORY}/revision/"):
            return self._info
        if path.startswith(f"/api/models/{REPOSITORY}/tree/"):
            return self._tree
        return self._list if path.strip("/") == BUCKET else None

    def head(self, path: str, wanted: str, commit: str) -> tuple[bytes, str, int, int]:
        """Returns the head of the response, and the file to send: its name, start and exclusive end."""
        body = self.body(path)
        name = "" if body is not None else path.rpartition("/")[2]
        if body is None and name not in self.files:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "", 0, 0
        size = len(body) if body is not None else self.files[name]["size"]
        match = RANGE.fullmatch(wanted) if name else None
        start, end = (int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)) if match else (0, size)
        etag = self.files[name]["sha256"] if name else "x"
        kind = "application/json" if path.startswith("/api/") else "application/xml" if body else "binary/octet-stream"
        lines = [
            "HTTP/1.1 206 Partial Content" if match else "HTTP/1.1 200 OK",
            f"Content-Type: {kind}",
            f"Content-Length: {end - start}",
            "Accept-Ranges: bytes",
            f'ETag: "{etag}"',
            f'X-Linked-Etag: "{etag}"',
            f"X-Repo-Commit: {commit}",
            "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT",
            *([f"Content-Range: bytes {start}-{end - 1}/{size}"] if match else []),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""), name, start, end


def serve(connection: socket.socket, answers: Answers, line: Line, commit: str) -> None:
    """Serves one connection until it ends."""
    pace = Pace(line)
    time.sleep(line.round_trip)
    received = b""
    while True:
        while b"\r\n\r\n" not in received:
            if not (more := connection.recv(65_536)):
                return
            received += more
        head, _, received = received.partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in rest)}
        time.sleep(line.round_trip)
        path = urllib.parse.unquote(target.partition("?")[0])
        answer, name, start, end = answers.head(path, headers.get("range", ""), commit)
        connection.sendall(answer)
        if method == "GET" and name:
            send(connection, answers.root / name, start, end, pace)


def send(connection: socket.socket, path: Path, start: int, end: int, pace: Pace) -> None:
    """Sends a part of a file at the connection's rate."""
    pace.begin()
    with path.open("rb") as file:
        while start < end:
            allowed = min(pace.allowed(), end - start)
            while allowed > 0:
                if isinstance(connection, ssl.SSLSocket):
                    sent = len(content := os.pread(file.fileno(), min(allowed, TLS_BYTES), start))
                    connection.sendall(content)
                else:
                    sent = os.sendfile(connection.fileno(), file.fileno(), start, allowed)
                start, allowed = start + sent, allowed - sent
                pace.spend(sent)


def accept(listening: socket.socket, trust: ssl.SSLContext | None, answers: Answers, line: Line, commit: str) -> None:
    """Accepts connections, each in a thread. Never returns."""

    def run(plain: socket.socket) -> None:
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if trust:
                time.sleep(line.round_trip)  # the handshake
                plain = trust.wrap_socket(plain, server_side=True)
            serve(plain, answers, line, commit)
        except (OSError, ValueError):
            pass  # the client has disconnected
        finally:
            plain.close()

    while True:
        threading.Thread(target=run, args=(listening.accept()[0],), daemon=True).start()


def main() -> None:
    """Serves until the process is killed, with one process per core."""
    root, port, round_trip, rate, *pair = sys.argv[1:]
    trust = None
    if pair:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(*pair)
    threading.stack_size(256 * 1024)
    listening = socket.create_server(("127.0.0.1", int(port)), backlog=1024)
    commit = json.loads(Path(root, "lock.json").read_text())["commit"]
    for _ in range(len(os.sched_getaffinity(0)) - 1):
        if os.fork() == 0:
            break
    accept(listening, trust, Answers(Path(root)), Line(float(round_trip), float(rate)), commit)


if __name__ == "__main__":
    main()
