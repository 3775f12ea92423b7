"""Mistakes of the user: `stage` fails at once with one line that says what was expected, and creates nothing."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import HubClient

from .conftest import COMMIT
from .running import Ended, Stager

Run = Callable[..., Ended]
STAGE = ["stage", "--repository", "acme/model", "--revision", COMMIT]
SHA256 = "a" * 64
CLOSED = "http://127.0.0.1:9"  # the discard port, where nothing listens


@pytest.fixture
def run(hub: HubClient, tmp_path: Path) -> Run:
    """Runs a subcommand of the stager, with the environment of the test."""

    def run_subcommand(*arguments: str | Path, **environment: str) -> Ended:
        began = time.monotonic()
        ended = Stager(arguments, log_directory=tmp_path, **{"HF_ENDPOINT": hub.url, **environment}).wait()
        assert time.monotonic() - began < 15, "a person waits"
        assert "Traceback" not in ended.log
        return ended

    return run_subcommand


@pytest.mark.parametrize(
    "endpoint",
    ["ftp://hub", "hub", "http://", "http://hub:99999", "http://[::1", "http://hub ", "http://hub\n", "http://hub?x"],
)
@pytest.mark.parametrize("subcommand", ["lock", "stage"])
def test_an_endpoint_that_is_no_web_address_is_refused_at_once(
    run: Run, tmp_path: Path, subcommand: str, endpoint: str
) -> None:
    lock = ["lock", "acme/model", "--revision", "main"]
    ended = run(
        *(lock if subcommand == "lock" else [*STAGE, "--directory", str(tmp_path / "tree")]), HF_ENDPOINT=endpoint
    )
    assert ended.status == 1
    assert f"HF_ENDPOINT is {endpoint!r}: expected an address" in ended.message
    assert "again in" not in ended.log


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("HTTPS_PROXY", "socks5://proxy:1080", "expected http://host:port"),
        ("SSL_CERT_FILE", "/absent.pem", "expected a file of certificates (No such file"),
        ("AWS_CA_BUNDLE", "/etc/hostname", "expected a file of certificates"),
        ("HF_TOKEN", "hf secret", "HF_TOKEN holds characters that no token has"),
    ],
)
def test_what_no_client_could_use_in_the_environment_is_named(
    run: Run, variable: str, value: str, expected: str
) -> None:
    ended = run("lock", "acme/model", "--revision", "main", **{variable: value})
    assert ended.status == 1
    assert variable in ended.message
    assert expected in ended.message
    assert "secret" not in ended.log


def test_a_refused_connection_is_said_and_not_tried_for_longer_than_a_person_waits(run: Run) -> None:
    ended = run("lock", "acme/model", "--revision", "main", HF_ENDPOINT=CLOSED)
    assert ended.status == 75, "another attempt may find it up"
    assert "Connection refused; again in" in ended.log
    assert "Connection refused (asked 4 times)" in ended.message
    assert " of 0.0 GB" not in ended.log


def test_a_password_in_what_is_no_address_is_not_printed(run: Run) -> None:
    lock = ["lock", "acme/model", "--revision", "main"]
    endpoint = run(*lock, HF_ENDPOINT="http://user:secret@ hub")
    assert "HF_ENDPOINT is 'http:// hub': expected" in endpoint.message
    proxy = run(*lock, HTTPS_PROXY="user:secret@prox y:1")
    assert "(HTTPS_PROXY) is 'prox y:1': expected" in proxy.message
    source = run(*STAGE, "--directory", "/t", "--source=ftp://user:secret@host/a")
    assert "source 'ftp://host/a': expected hub" in source.message
    assert "secret" not in endpoint.log + proxy.log + source.log


def test_a_password_in_the_endpoint_is_not_printed(run: Run) -> None:
    ended = run("lock", "acme/model", "--revision", "main", HF_ENDPOINT=CLOSED.replace("//", "//user:secret@"))
    assert "Connection refused" in ended.message
    assert "secret" not in ended.log


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["lock"], "expected REPOSITORY and --revision"),
        (["lock", "acme/model"], "expected REPOSITORY and --revision"),
        (["lock", "acme/model", "--from-manifest", "/models"], "--from-manifest DIR alone"),
        (["lock", "nonsense", "--revision", "main"], "is 'nonsense', expected owner/name"),
        (["lock", "acme/model", "--revision", ""], "argument --revision: is empty"),
        (["stage", "--repository", "not a name", "--revision", COMMIT, "--directory", "/t"], "expected owner/name"),
        ([*STAGE, "--directory", ""], "argument --directory: is empty"),
        ([*STAGE, "--directory", "/t", "--stall-seconds", "inf"], "is inf, expected 0.1 to 86400"),
        ([*STAGE, "--directory", "/t", "--lease-seconds", "nan"], "is nan, expected 1 to 86400"),
        ([*STAGE, "--directory", "/t", "--streams", "-1"], "is -1, expected 1 to 256"),
        ([*STAGE, "--directory", "/t", "--user", "h200"], "is 'h200', expected NAMESPACE/STACK"),
        (
            [*STAGE, "--directory", "/t", "--source=s3://", "--source=ftp://h"],
            "source 's3://', 'ftp://h': expected hub",
        ),
        (["mirror", "{lock}", "s3:///prefix"], "mirror 's3:///prefix': expected s3://bucket/prefix"),
        (["prune", "/models", "--keep-newest", "-1"], "is -1, expected at least 0"),
        (["prune", "/models", "--keep-newest", "1", "--in-use", "main"], "expected the 16 hexadecimal digits"),
        (["verify"], "usage: stager verify"),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:]) if isinstance(value, list) else "",
)
def test_wrong_usage_has_a_status_of_its_own(run: Run, tmp_path: Path, arguments: list[str], expected: str) -> None:
    lock = write(tmp_path, render([{"path": "a", "size": 1, "sha256": SHA256}]))
    ended = run(*(argument.format(lock=lock) for argument in arguments))
    assert ended.status == 2
    assert expected in ended.log


def write(directory: Path, content: str | bytes) -> Path:
    path = directory / "x.lock.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def render(files: Any, **changes: Any) -> str:
    lock = {"version": 1, "repository": "acme/model", "revision": "main", "commit": COMMIT, "files": files}
    return json.dumps({**lock, "total_bytes": 1, **changes})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe{}", "is not a text in UTF-8"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "expected an object of version 1"),
        (render({}), "files is missing or empty"),
        (render([1, {"path": 2}]), "file entry 1 has no usable path; file entry {'path': 2} has no usable path"),
        (render([{"path": "a\0b", "size": 1, "sha256": SHA256}]), "has no usable path"),
        (render([{"path": "a", "size": float("nan"), "sha256": 5}]), "a: size is nan, expected bytes; a: sha256 is 5"),
        (render([{"path": "a", "size": 10**400, "sha256": SHA256}]), "expected bytes"),
        (render([], repository="../..", commit=7), "repository is '../..', expected owner/name"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) or len(value) > 50 else value,
)
@pytest.mark.parametrize("subcommand", ["mirror", "stage"])
def test_a_lock_that_is_none_is_refused_with_all_that_is_wrong(
    run: Run, tmp_path: Path, subcommand: str, content: str | bytes, expected: str
) -> None:
    lock = write(tmp_path, content)
    what = {"mirror": ["mirror", lock, "s3://bucket/prefix"], "stage": [*STAGE, "--directory", "t", "--lock", lock]}
    ended = run(*what[subcommand])
    assert ended.status == 1
    assert expected in ended.message


@pytest.mark.parametrize(
    ("place", "expected"), [("absent/a.json", "there is no directory"), ("", "is a directory, expected a file")]
)
def test_a_lock_is_not_asked_for_where_it_could_not_be_written(
    run: Run, hub: HubClient, tmp_path: Path, place: str, expected: str
) -> None:
    ended = run("lock", "acme/model", "--revision", "main", "--output", tmp_path / place)
    assert ended.status == 1
    assert expected in ended.message
    assert not (tmp_path / "absent").exists()
    assert hub.requests() == {}


def test_a_file_where_a_directory_is_expected_is_said_to_be_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is no directory" in run(*STAGE, "--directory", tmp_path / "file").message
    assert "Not a directory" in run("prune", tmp_path / "file", "--keep-newest", "1").message
