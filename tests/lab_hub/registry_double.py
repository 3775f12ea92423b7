"""A double of a container registry: manifests by tag, behind the anonymous token that public registries ask for.

Follows the pull part of github.com/opencontainers/distribution-spec; it has no blobs, and its manifest is made up.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}).encode()
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"
TOKEN = "anonymous"


class _Handler(BaseHTTPRequestHandler):
    """`engine` and `stage` have tag v1 for everybody; `private` asks for a login; `altered` states another digest."""

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/token":
            private = query["scope"] == ["repository:team/private:pull"]
            self._answer(403 if private else 200, json.dumps({"token": TOKEN}).encode())
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            repository = path.removeprefix("/v2/").partition("/manifests/")[0]
            realm = f"http://{self.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="registry",scope="repository:{repository}:pull"'
            self._answer(401, b"{}", {"WWW-Authenticate": challenge})
        elif path.endswith("/manifests/v1") and "oci.image.index" in self.headers["Accept"]:
            stated = f"sha256:{'0' * 64}" if "altered" in path else DIGEST
            self._answer(200, MANIFEST, {"Docker-Content-Digest": stated})
        else:
            self._answer(404, b"{}")

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        pass


@contextmanager
def registry() -> Iterator[str]:
    """Runs the double. Yields its host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
