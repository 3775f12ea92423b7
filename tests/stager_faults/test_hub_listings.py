"""A hub with an invalid list of files, or with other bytes than it lists: the stager fails at once, with one line."""

import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stager.verify import problems

from .conftest import COMMIT, RunStager

MODEL = b"m" * 3_000_000
CONFIG = b"{}"


def blob(content: bytes) -> str:
    """Returns the id of a file in git."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def small(**other: object) -> dict[str, object]:
    return {"rfilename": "config.json", "size": len(CONFIG), "blobId": blob(CONFIG), **other}


def large(name: str = "m.bin", content: bytes = MODEL, size: int = len(MODEL)) -> dict[str, object]:
    lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": size, "pointerSize": 134}
    return {"rfilename": name, "size": size, "blobId": "0" * 40, "lfs": lfs}


class Hub(http.server.ThreadingHTTPServer):
    """A hub that lists `siblings` and serves `contents`."""

    daemon_threads = True
    siblings: list[dict[str, object]]
    contents: dict[str, bytes]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the two requests of the stager."""

    server: Hub

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/"):
            info = {"id": "acme/model", "sha": COMMIT, "siblings": self.server.siblings, "gated": False}
            self._answer(200, json.dumps({**info, "private": False, "tags": [], "downloads": 0, "likes": 0}).encode())
            return
        content = self.server.contents.get(self.path.rpartition(f"/resolve/{COMMIT}/")[2])
        if content is None:
            self.send_error(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, content)
            return
        start, end = int(asked[1]), min(int(asked[2]) + 1, len(content))
        self._answer(206, content[start:end], f"bytes {start}-{end - 1}/{len(content)}")

    def _answer(self, status: int, body: bytes, content_range: str | None = None) -> None:
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), "ETag": '"x"', "X-Repo-Commit": COMMIT}
        for name, value in (headers | ({"Content-Range": content_range} if content_range else {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def lying_hub() -> Iterator[Hub]:
    with Hub(("127.0.0.1", 0), Handler) as server:
        server.siblings, server.contents = [], {"m.bin": MODEL, "config.json": CONFIG, "n.bin": MODEL}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def url(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.server_port}"


@pytest.mark.parametrize(
    ("siblings", "said"),
    [
        ([small(size=None), large()], "config.json: size is None"),
        ([small(size=-1), large()], "config.json: size is -1"),
        ([small(size="2"), large()], "config.json: size is '2'"),
        ([large("e.bin", size=0), large()], "e.bin: is listed with 0 bytes, but its hash"),
        ([large(), large(content=b"other", size=len(MODEL)), large("n.bin")], "m.bin: is listed 2 times"),
        ([large("../x"), large()], "'../x': would leave the staged directory"),
        ([large("m.bin/x"), large()], "m.bin: is listed as a file and as a folder"),
        ([small(blobId=None), large()], "config.json: has no usable hash"),
    ],
    ids=[
        "no size",
        "size below 0",
        "size as text",
        "empty with a hash",
        "twice",
        "outside",
        "file and folder",
        "no hash",
    ],
)
def test_a_list_that_cannot_be_right_is_refused_before_the_first_byte(
    stage: RunStager, lying_hub: Hub, siblings: list[dict[str, object]], said: str
) -> None:
    lying_hub.siblings = siblings
    ended = stage(HF_ENDPOINT=url(lying_hub))
    assert ended.status == 1, ended.log
    assert said in ended.message
    assert "Traceback" not in ended.log


def test_a_file_shorter_than_listed_is_refused(stage: RunStager, lying_hub: Hub) -> None:
    lying_hub.siblings = [large()]
    lying_hub.contents["m.bin"] = MODEL[:-1]
    ended = stage(HF_ENDPOINT=url(lying_hub))
    assert ended.status == 1
    assert f"m.bin: {len(MODEL) - 1} bytes there, expected {len(MODEL)}" in ended.message


def test_a_file_that_changed_between_two_attempts_is_fetched_as_listed_now(
    stage: RunStager, lying_hub: Hub, tmp_path: Path
) -> None:
    lying_hub.siblings = [large(), small()]
    lying_hub.contents["config.json"] = b"[]"
    assert stage(HF_ENDPOINT=url(lying_hub)).status == 1
    longer = MODEL + b"more"
    lying_hub.siblings = [large(content=longer, size=len(longer)), small()]
    lying_hub.contents |= {"m.bin": longer, "config.json": CONFIG}
    ended = stage(HF_ENDPOINT=url(lying_hub))
    assert ended.status == 0, ended.log
    assert problems(tmp_path / "tree", full=True) == []
    assert (tmp_path / "tree/m.bin").read_bytes() == longer
