"""An API server that gives prepared answers over real HTTP, and the kubeconfig that leads to it."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from components.cluster.api import ClusterApi

Answer = dict[str, Any] | bytes | tuple[int, str] | None
Respond = Callable[[str, Mapping[str, str]], Answer]


@contextmanager
def api_server(
    answers: Mapping[str, Answer] | Respond, status: int = 404, heads: list[Message] | None = None
) -> Iterator[ClusterApi]:
    """The way to a server with these answers, by path with or without query: content, or status and text.

    Whatever else is asked gets `status` and a Status object. `heads` takes the headers of what is posted.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            known = self._known(address.path, dict(parse_qsl(address.query)))
            refusal = {"kind": "Status", "message": f"{address.path} is forbidden to nobody"}
            code, body = known if isinstance(known, tuple) else (status if known is None else 200, known)
            if not isinstance(body, bytes | str):
                body = json.dumps(refusal if body is None else body)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body.encode() if isinstance(body, str) else body)

        def do_DELETE(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            if heads is not None:
                heads.append(self.headers)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def _known(self, path: str, query: Mapping[str, str]) -> Answer:
            if self.headers["Authorization"] != "Bearer sample":
                return None
            return answers(path, query) if callable(answers) else answers.get(unquote(self.path), answers.get(path))

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal of a test."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield ClusterApi(kubeconfig(server.server_address[1]))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "test", "user": {"token": "sample"}}],
    }
