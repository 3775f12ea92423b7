"""`python -m lab.hub`: start, stop, and errors for an invalid table."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import running_hub

from .plain_http import fetch

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "lab.hub"]
SEEDED = {"seed": 1, "size": 1}
GOOD = {"branches": ["main"], "files": {"a": {"text": "x"}}}


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *options], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


def refusal(tmp_path: Path, table: Any) -> str:
    file = tmp_path / "table.json"
    file.write_text(json.dumps(table))
    done = run("--repositories", str(file))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, "expected one message"
    return done.stderr


def test_it_prints_where_it_listens_and_ends_on_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "table.yaml"
    file.write_text("repositories:\n  acme/a: {revisions: [{branches: [main], files: {a: {disk: here}}}]}\n")
    (tmp_path / "here").write_text("beside the table")
    with subprocess.Popen(
        [*COMMAND, "--repositories", str(file)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.fullmatch(r"hub listens on (http://127\.0\.0\.1:\d+), storage on (http://127\.0\.0\.1:\d+)\n", line)
        assert match is not None, line
        assert fetch(f"{match.group(1)}/acme/a/resolve/main/a").status == 307
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_it_ends_while_a_client_waits() -> None:
    table = {"repositories": {"acme/a": {"revisions": [GOOD]}}}
    with running_hub(table) as hub:
        hub.fault("stall", offset=0, seconds=600)
        parts = hub.url.removeprefix("http://").split(":")
        with socket.create_connection((parts[0], int(parts[1])), timeout=5) as client:
            commit = fetch(f"{hub.url}/acme/a/resolve/main/a").headers["X-Repo-Commit"]
            client.sendall(f"GET /api/resolve-cache/models/acme/a/{commit}/a HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            hub.process.terminate()
            assert hub.process.wait(timeout=20) == 0


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--repositories", str(file), "--port", str(port))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"lab\.hub: .*{port}.*address already in use\n", done.stderr)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run("--repositories", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "none.yaml: cannot be read (No such file or directory)" in done.stderr


def test_a_directory_of_wheels_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text("{}")
    done = run("--repositories", str(tmp_path / "table.json"), "--wheels", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "none: expected a directory of wheels" in done.stderr


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text("{}")
    (tmp_path / "file").touch()
    done = run("--repositories", str(tmp_path / "table.json"), "--state-dir", str(tmp_path / "file/state"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "file/state" in done.stderr


def test_a_table_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text("repositories: [")
    done = run("--repositories", str(tmp_path / "table.yaml"))
    assert done.returncode == 2
    assert "neither YAML nor JSON" in done.stderr


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    said = refusal(
        tmp_path,
        {
            "repositories": {
                "acme/a": {"gatd": True, "revisions": [GOOD]},
                "acme/b": {"revisions": [{**GOOD, "commit": "short"}]},
                "acme/c": {"revisions": [{**GOOD, "files": {"a": {"text": "x", "generate": SEEDED}, "b": {}}}]},
            }
        },
    )
    assert "repositories.acme/a.gatd: Extra inputs are not permitted (found True)" in said
    assert "repositories.acme/b.revisions.0.commit" in said
    assert "(found 'short')" in said
    assert (
        "repositories.acme/c.revisions.0.files.a: Value error, expected exactly one of text, disk and generate" in said
    )
    assert "found none of them" in said
    assert said.count("(found ") == 4, "expected nothing to be said twice"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"repositories": {"a/b": {"revisions": []}}}, "expected one revision with `branches: [main]`"),
        ({"repositories": {"a/b": {"revisions": [{**GOOD, "files": {}}]}}}, "expected at least one file"),
        (None, "table: Input should be a valid dictionary"),
        ({"repositories": {"noowner": {"revisions": [GOOD]}}}, "expected repositories named owner/name, found noowner"),
        (
            {"repositories": {"a/b": {"revisions": [{**GOOD, "branches": []}]}}},
            "expected one revision with `branches: [main]`",
        ),
        ({"repositories": {"a/b": {"revisions": [GOOD, {**GOOD, "commit": "1" * 40}]}}}, "found twice: main"),
        ({"repositories": {"a/b": {"revisions": [{**GOOD, "files": {"../a": {"text": ""}}}]}}}, "found ../a"),
        ({"repositories": {"a/b": {"revisions": [{**GOOD, "files": {"/a": {"text": ""}}}]}}}, "found /a"),
        (
            {"repositories": {"a/b": {"revisions": [{**GOOD, "files": {"a": {"text": ""}, "a/b": {"text": ""}}}]}}},
            "file or a folder, found both: a",
        ),
        (
            {"repositories": {"a/b": {"revisions": [{**GOOD, "files": {"a": {"disk": "/none"}}}]}}},
            "expected a file, found none at /none",
        ),
        (
            {"tokens": [{"token": "t", "user": "u", "gated": ["a/b"]}]},
            "gated repositories of this table only, found a/b",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_reason(tmp_path: Path, table: Any, expected: str) -> None:
    assert expected in refusal(tmp_path, table)


def test_a_hub_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(RuntimeError, match="expected repositories named owner/name"),
        running_hub({"repositories": {"x": {"revisions": [GOOD]}}}),
    ):
        pytest.fail("the hub started")
