"""A web server of which every byte is the test's own; no library would send what it sends."""

import contextlib
import hashlib
import re
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Answer = Callable[["Request"], None]


@dataclass
class Request:
    """One request: its head, and the connection to answer it on."""

    head: str
    send: Callable[[bytes], None]
    wait: Callable[[float], bool]
    """Until the test is over, at most so many seconds."""

    @property
    def range(self) -> tuple[int, int]:
        """The bytes asked for: from where, up to where."""
        found = re.search(r"(?i)range: bytes=(\d+)-(\d+)", self.head)
        assert found is not None
        return int(found[1]), int(found[2]) + 1


@dataclass
class RawServer:
    """A running server, and the heads of all requests to it."""

    url: str
    heads: list[str] = field(default_factory=list)


def saying(text: bytes) -> Answer:
    """An answer that is this text, after which the connection is closed."""
    return lambda request: request.send(text)


def giving(content: bytes) -> Answer:
    """The file itself, as a well-behaved server gives it."""

    def answer(request: Request) -> None:
        start, end = request.range
        head = (
            f"HTTP/1.1 206 x\r\nContent-Range: bytes {start}-{end - 1}/{len(content)}\r\nContent-Length: {end - start}"
        )
        request.send(head.encode() + b"\r\n\r\n" + content[start:end])

    return answer


def dripping(content: bytes, seconds: float) -> Answer:
    """One byte of the file now and then."""

    def answer(request: Request) -> None:
        start, end = request.range
        head = (
            f"HTTP/1.1 206 x\r\nContent-Range: bytes {start}-{end - 1}/{len(content)}\r\nContent-Length: {end - start}"
        )
        request.send(head.encode() + b"\r\n\r\n")
        for place in range(start, end):
            request.send(content[place : place + 1])
            request.wait(seconds)

    return answer


@contextlib.contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """A server that answers every connection once with `answer`."""
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection = tls.wrap_socket(self.request, server_side=True) if tls else self.request
            head = b""
            with contextlib.suppress(OSError):
                while b"\r\n\r\n" not in head and (more := connection.recv(65536)):
                    head += more
                server.heads.append(head.decode("latin-1"))
                answer(Request(server.heads[-1], connection.sendall, over.wait))
            with contextlib.suppress(OSError):
                connection.close()

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up is what these tests are about."""

    with Threads(("127.0.0.1", 0), Handler) as listener:
        scheme = "https" if tls else "http"
        server = RawServer(f"{scheme}://127.0.0.1:{listener.server_address[1]}")
        threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        over.set()
        listener.shutdown()


def sha256(content: bytes) -> str:
    """What a lock says of this content."""
    return hashlib.sha256(content).hexdigest()
