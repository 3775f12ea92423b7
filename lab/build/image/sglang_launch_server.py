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
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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
    """What a rank says of itself: its files prove that it can read the weights."""
    files = sorted(path.name for path in Path(flags.model_path).iterdir() if not path.name.startswith("."))
    return {"rank": flags.node_rank, "host": socket.gethostname(), "address": flags.dist_init_addr, "files": files}


def end(reason: str) -> None:
    """Ends the whole process, whichever thread notices."""
    print(f"rank lost: {reason}", file=sys.stderr, flush=True)
    os._exit(1)


def told_to_end(connection: socket.socket) -> bool:
    """Waits until the peer says that it drains, or goes."""
    try:
        return connection.recv(1) == b"x"
    except OSError:
        return False


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
        asked = json.loads(self._body())
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

    def _body(self) -> bytes:
        if length := self.headers["Content-Length"]:
            return self.rfile.read(int(length))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        return content

    def log_message(self, *_: object) -> None:
        """Probes are not worth a line."""


def lead(flags: argparse.Namespace) -> None:
    """Waits for every other rank, then serves."""
    ranks, connections, draining = {flags.node_rank: introduction(flags)}, list[socket.socket](), threading.Event()

    def watch(connection: socket.socket, rank: object) -> None:
        told_to_end(connection)
        if not draining.is_set():
            end(f"rank {rank}")

    with socket.create_server(("", int(flags.dist_init_addr.rpartition(":")[2]))) as listener:
        listener.settimeout(MEET_SECONDS)
        while len(ranks) < flags.nnodes:
            connection, _ = listener.accept()
            came = json.loads(connection.makefile().readline())
            ranks[came["rank"]] = came
            connections.append(connection)
            threading.Thread(target=watch, args=(connection, came["rank"]), daemon=True).start()
    Answers.flags, Answers.met, Answers.running = flags, [ranks[rank] for rank in sorted(ranks)], set()

    def drain() -> None:
        """Ends when no request runs; the kubelet ends what takes longer."""
        while Answers.running and not os.environ.get("SGL_FORCE_SHUTDOWN"):
            time.sleep(0.1)
        draining.set()
        for connection in connections:
            connection.sendall(b"x")
        os._exit(0)

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=drain).start())
    print("every rank is here", flush=True)
    ThreadingHTTPServer((flags.host, flags.port), Answers).serve_forever()


def follow(flags: argparse.Namespace) -> None:
    """Meets rank 0 and stays as long as it does. SIGTERM is left to rank 0."""
    signal.signal(signal.SIGTERM, lambda *_: print("waiting for rank 0", flush=True))
    host, _, port = flags.dist_init_addr.rpartition(":")
    deadline = time.monotonic() + MEET_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, int(port)), timeout=5)
            break
        except OSError as reason:
            if time.monotonic() > deadline:
                end(f"no rank 0 at {flags.dist_init_addr}: {reason}")
            time.sleep(0.5)
    connection.settimeout(None)
    connection.sendall(json.dumps(introduction(flags)).encode() + b"\n")
    print("met rank 0", flush=True)
    if not told_to_end(connection):
        end("rank 0")


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
