"""A stand-in for SGLang over several nodes: it computes nothing, and its ranks connect, fail and drain as SGLang's do.

It is the module `sglang.launch_server` of the image. Rank 0 listens at the port of `--dist-init-addr` and serves only
when every other rank has come; each of the others connects to that address and answers `/health` at its own port. A
rank that loses its peers ends with an error. Told to stop, rank 0 ends when no request runs, and the others wait for
it. `/ranks` says who met, `/running` how many requests run. With `--api-key`, requests need it but for `/health...`.
"""

import argparse
import json
import os
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab.build.image import ranks

TOKEN_SECONDS = float(os.environ.get("LAB_TOKEN_SECONDS", "0"))
"""Time for each token of an answer."""
MEET_SECONDS = 600


def parser() -> argparse.ArgumentParser:
    """The flags that matter here, with SGLang's names and defaults; all others are let through."""
    flags = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    flags.add_argument("--model-path", required=True)
    flags.add_argument("--served-model-name", required=True)
    flags.add_argument("--host", default="127.0.0.1")
    flags.add_argument("--port", type=int, default=30000)
    flags.add_argument("--nnodes", type=int, default=1)
    flags.add_argument("--node-rank", type=int, default=0)
    flags.add_argument("--dist-init-addr", default="127.0.0.1:25000")
    flags.add_argument("--api-key")
    return flags


def introduction(flags: argparse.Namespace) -> dict[str, object]:
    """What this rank says of itself."""
    return ranks.introduction(flags.node_rank, flags.dist_init_addr, flags.model_path)


class Answers(BaseHTTPRequestHandler):
    """What rank 0 answers."""

    flags: argparse.Namespace
    met: list[dict[str, object]]
    running: set[int]

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": self.flags.served_model_name, "object": "model"}]}
        known: dict[str, object] = {"/health": {}, "/health_generate": {}, "/v1/models": models}
        known |= {"/ranks": self.met, "/running": len(self.running)}
        self._answer(200 if self.path in known else 404, known.get(self.path))

    def do_POST(self) -> None:
        asked = json.loads(ranks.body(self))
        self.running.add(threading.get_ident())
        time.sleep(TOKEN_SECONDS * asked["max_tokens"])
        right = self.path == "/v1/completions" and asked["model"] == self.flags.served_model_name
        self._answer(200 if right else 404, {"choices": [{"text": " 2"}] * asked["max_tokens"]})
        self.running.discard(threading.get_ident())

    def _answer(self, status: int, content: object) -> None:
        key, opened = self.flags.api_key, self.path.startswith(("/health", "/metrics"))
        if key and not opened and self.headers["Authorization"] != f"Bearer {key}":
            status, content = 401, {"error": "Unauthorized"}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        """Probes are not worth a line."""


def lead(flags: argparse.Namespace) -> None:
    """Waits for every other rank, then serves."""
    draining = threading.Event()

    def watch(connection: socket.socket, who: str) -> None:
        ranks.byte_from(connection)
        if not draining.is_set():
            ranks.end(who)

    port = int(flags.dist_init_addr.rpartition(":")[2])
    met, connections = ranks.gather(introduction(flags), flags.nnodes, port, MEET_SECONDS, watch)
    Answers.flags, Answers.met, Answers.running = flags, met, set()

    def drain() -> None:
        """Ends when no request runs; the kubelet ends what takes longer."""
        while Answers.running and not os.environ.get("SGL_FORCE_SHUTDOWN"):
            time.sleep(0.1)
        draining.set()
        for connection in connections:
            connection.sendall(b"x")
        os._exit(0)

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=drain).start())
    ThreadingHTTPServer((flags.host, flags.port), Answers).serve_forever()


def follow(flags: argparse.Namespace) -> None:
    """Meets rank 0 and stays as long as it does. SIGTERM is left to rank 0."""
    signal.signal(signal.SIGTERM, lambda *_: print("waiting for rank 0", flush=True))
    host, _, port = flags.dist_init_addr.rpartition(":")
    if ranks.byte_from(ranks.meet(introduction(flags), host, int(port), MEET_SECONDS)) != b"x":
        ranks.end("rank 0")


def main() -> None:
    """One rank."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    flags, _ = parser().parse_known_args()
    if flags.node_rank:
        follow(flags)
    else:
        lead(flags)


if __name__ == "__main__":
    main()
