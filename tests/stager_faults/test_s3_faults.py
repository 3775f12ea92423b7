"""Errors of S3: the stager retries transient ones, and reports the others with the code of S3."""

import datetime
import email.utils
import hashlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stager.verify import problems

from .conftest import COMMIT
from .running import Ended, Stager

CONTENT = b'{"model_type": "lab"}\n'
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class FaultyS3(http.server.BaseHTTPRequestHandler):
    """Sends the given errors one after the other, then the object."""

    protocol_version = "HTTP/1.1"
    script: list[dict[str, Any]]

    def do_GET(self) -> None:
        """Sends one answer."""
        fault = self.script.pop(0) if self.script else None
        body = f"<Error><Code>{fault['code']}</Code></Error>".encode() if fault else CONTENT
        self.send_response_only(fault["status"] if fault else 206)
        date = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=fault.get("minutes", 0) if fault else 0)
        self.send_header("Date", email.utils.format_datetime(date))
        self.send_header("Content-Length", str(len(body)))
        if fault is None:
            self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def script() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def endpoint(script: list[dict[str, Any]]) -> Iterator[str]:
    handler = type("Handler", (FaultyS3,), {"script": script})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def stage_from_s3(endpoint: str, tmp_path: Path) -> Callable[[], Ended]:
    entry = {"path": "config.json", "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}
    lock = {"version": 1, "repository": "acme/model", "revision": COMMIT, "commit": COMMIT, "files": [entry]}
    (tmp_path / "lock.json").write_text(json.dumps({**lock, "total_bytes": len(CONTENT)}))
    where: list[str | Path] = [
        "--directory",
        tmp_path / "tree",
        "--lock",
        tmp_path / "lock.json",
        "--source",
        "s3://weights",
    ]
    what = ["--repository", "acme/model", "--revision", COMMIT]

    def run() -> Ended:
        environment = {"AWS_ENDPOINT_URL_S3": endpoint, **ENVIRONMENT}
        return Stager(["stage", *where, *what], log_directory=tmp_path, **environment).wait()

    return run


@pytest.mark.parametrize(
    "faults",
    [
        [{"status": 503, "code": "SlowDown"}, {"status": 500, "code": "InternalError"}],
        [{"status": 403, "code": "ExpiredToken"}],
        [{"status": 400, "code": "ExpiredToken"}],
        [{"status": 503, "code": "SlowDown"}, {"status": 403, "code": "AccessDenied"}],
    ],
)
def test_what_passes_is_survived(
    stage_from_s3: Callable[[], Ended], script: list[dict[str, Any]], tmp_path: Path, faults: list[dict[str, Any]]
) -> None:
    script += faults
    ended = stage_from_s3()
    assert ended.status == 0, ended.log
    assert script == []
    assert problems(tmp_path / "tree", full=True) == []


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchKey", "InvalidAccessKeyId"])
def test_what_stays_is_said_as_s3_says_it(
    stage_from_s3: Callable[[], Ended], script: list[dict[str, Any]], code: str
) -> None:
    script += 9 * [{"status": 404 if code == "NoSuchKey" else 403, "code": code}]
    ended = stage_from_s3()
    assert ended.status == 1
    assert ended.message.endswith(code)
    assert "X-Amz-Signature" not in ended.log
    assert "secret" not in ended.log


@pytest.mark.parametrize(
    ("minutes", "said"), [(20, "20 min behind the server's"), (-47, "47 min ahead of the server's")]
)
def test_a_clock_that_is_wrong_here_is_named_as_the_likely_cause(
    stage_from_s3: Callable[[], Ended], script: list[dict[str, Any]], minutes: int, said: str
) -> None:
    script += 9 * [{"status": 403, "code": "RequestTimeTooSkewed", "minutes": minutes}]
    message = stage_from_s3().message
    assert f"RequestTimeTooSkewed (the clock here is {said})" in message
