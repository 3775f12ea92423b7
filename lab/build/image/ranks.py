"""How the ranks of a stand-in meet over TCP, and lose one another."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path


def introduction(rank: int, leader: str, model: str) -> dict[str, object]:
    """What a rank says of itself: its files prove that it can read the weights."""
    files = sorted(path.name for path in Path(model).iterdir() if not path.name.startswith("."))
    return {"rank": rank, "host": socket.gethostname(), "address": leader, "files": files}


def end(reason: str) -> None:
    """Ends the whole process, whichever thread notices."""
    print(f"rank lost: {reason}", file=sys.stderr, flush=True)
    os._exit(1)


def gather(
    own: Mapping[str, object], count: int, port: int, seconds: float, watch: Callable[[socket.socket, str], None]
) -> tuple[list[dict[str, object]], list[socket.socket]]:
    """Waits, as rank 0, for all `count` ranks; returns what each says of itself, and the connections to the others.

    `watch` runs in a thread of its own for each connection, with the name of its rank.
    """
    met, connections = [dict(own)], list[socket.socket]()
    with socket.create_server(("", port)) as listener:
        listener.settimeout(seconds)
        while len(met) < count:
            connection, _ = listener.accept()
            met.append(json.loads(connection.makefile().readline()))
            connections.append(connection)
            threading.Thread(target=watch, args=(connection, f"rank {met[-1]['rank']}"), daemon=True).start()
    print("every rank is here", flush=True)
    return sorted(met, key=lambda each: int(str(each["rank"]))), connections


def meet(own: Mapping[str, object], host: str, port: int, seconds: float) -> socket.socket:
    """Connects to rank 0, and ends the process if it does not come in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5)
            break
        except OSError as reason:
            if time.monotonic() > deadline:
                end(f"no rank 0 at {host}: {reason}")
            time.sleep(0.5)
    connection.settimeout(None)
    connection.sendall(json.dumps(own).encode() + b"\n")
    print("met rank 0", flush=True)
    return connection


def byte_from(connection: socket.socket) -> bytes:
    """Waits until the peer sends a byte, or goes: then it returns none."""
    try:
        return connection.recv(1)
    except OSError:
        return b""


def body(request: BaseHTTPRequestHandler) -> bytes:
    """The body of a request, whole or in chunks."""
    if length := request.headers["Content-Length"]:
        return request.rfile.read(int(length))
    content = b""
    while size := int(request.rfile.readline(), 16):
        content += request.rfile.read(size)
        request.rfile.readline()
    return content
