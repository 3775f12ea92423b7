#!/usr/bin/env python3
"""A stand-in for vLLM over several nodes: it computes nothing, and its ranks connect, fail and drain as vLLM's do.

Rank 0 listens at its own address and serves only when every other rank has come; each of the others connects to the
address it was given. A rank that loses its peers ends with an error, on either side. `/ranks` says who met,
`/running` how many requests run.
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

FIRST_ANSWER = os.environ.get("LAB_FIRST_ANSWER", "")
"""How the first completion fails, which /health does not show: with HTTP 500, or with the end of the whole process."""
TOKEN_SECONDS = float(os.environ.get("LAB_TOKEN_SECONDS", "0"))
"""Time for each token of an answer."""
READY_SECONDS = float(os.environ.get("VLLM_ENGINE_READY_TIMEOUT_S", "600"))


def parser() -> argparse.ArgumentParser:
    """The flags that matter here, with vLLM's names and defaults; all others are let through."""
    flags = argparse.ArgumentParser(prog="vllm", allow_abbrev=False)
    flags.add_argument("command", choices=["serve"])
    flags.add_argument("model")
    flags.add_argument("--served-model-name", required=True)
    flags.add_argument("--port", type=int, default=8000)
    flags.add_argument("--nnodes", type=int, default=1)
    flags.add_argument("--node-rank", type=int, default=0)
    flags.add_argument("--master-addr", default="127.0.0.1")
    flags.add_argument("--master-port", type=int, default=29501)
    flags.add_argument("--headless", action="store_true")
    flags.add_argument("--shutdown-timeout", type=int, default=0)
    return flags


def introduction(flags: argparse.Namespace) -> dict[str, object]:
    """What this rank says of itself."""
    return ranks.introduction(flags.node_rank, flags.master_addr, flags.model)


def watch(connection: socket.socket, who: str) -> None:
    """Ends with an error when the peer goes."""
    if not ranks.byte_from(connection):
        ranks.end(who)


def lead(flags: argparse.Namespace) -> None:
    """Waits for every other rank, then serves."""
    met, _connections = ranks.gather(introduction(flags), flags.nnodes, flags.master_port, READY_SECONDS, watch)
    running: set[int] = set()

    def drain() -> None:
        """Ends when no request runs, at the latest after the timeout."""
        deadline = time.monotonic() + flags.shutdown_timeout
        while running and time.monotonic() < deadline:
            time.sleep(0.1)
        os._exit(0)

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=drain).start())

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": flags.served_model_name, "object": "model"}]}
            known: dict[str, object] = {"/health": {}, "/v1/models": models, "/ranks": met, "/running": len(running)}
            self.send_response(200 if self.path in known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(known.get(self.path)).encode())

        def do_POST(self) -> None:
            asked = json.loads(ranks.body(self))
            if FIRST_ANSWER == "end":
                ranks.end("the first request")
            right = self.path == "/v1/completions" and asked["model"] == flags.served_model_name
            running.add(threading.get_ident())
            time.sleep(TOKEN_SECONDS * asked["max_tokens"])
            error = {"message": "size_k must be divisible by the group size"} if FIRST_ANSWER else None
            self.send_response(500 if error else 200 if right else 404)
            self.end_headers()
            tokens = [{"text": " 2"}] * asked["max_tokens"]
            self.wfile.write(json.dumps({"error": error} if error else {"choices": tokens}).encode())
            running.discard(threading.get_ident())

        def log_message(self, *_: object) -> None:
            """Probes are not worth a line."""

    ThreadingHTTPServer(("", flags.port), Answers).serve_forever()


def follow(flags: argparse.Namespace) -> None:
    """Meets rank 0 and stays as long as it does."""
    watch(ranks.meet(introduction(flags), flags.master_addr, flags.master_port, READY_SECONDS), "rank 0")


def main() -> None:
    """One rank."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    flags, _ = parser().parse_known_args()
    if flags.headless != (flags.node_rank > 0):
        raise SystemExit("rank 0 serves and all other ranks are headless")
    if flags.headless:
        follow(flags)
    else:
        lead(flags)


if __name__ == "__main__":
    main()
