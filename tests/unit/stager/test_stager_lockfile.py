"""A lock says the same after writing and reading, and everything wrong with one is said at once."""

import json
from typing import Any

import pytest

from stager.errors import StagerError
from stager.listing import Listing, RemoteFile
from stager.lockfile import parse_lock, render_lock

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LISTING = Listing("acme/model", "main", COMMIT, (RemoteFile("b", 2, "b" * 64), RemoteFile("a", 1, "a" * 64)))


def lock(**changes: Any) -> str:
    return json.dumps(json.loads(render_lock(LISTING)) | changes)


def test_a_lock_has_the_keys_of_the_contract_and_its_files_in_order() -> None:
    written = json.loads(render_lock(LISTING))
    assert list(written) == ["version", "repository", "revision", "commit", "files", "total_bytes"]
    assert written["files"] == [
        {"path": "a", "size": 1, "sha256": "a" * 64},
        {"path": "b", "size": 2, "sha256": "b" * 64},
    ]
    assert written["total_bytes"] == 3
    assert render_lock(LISTING).endswith("}\n")


def test_a_lock_reads_back_as_it_was() -> None:
    read = parse_lock(render_lock(LISTING), "x")
    assert (read.repository, read.revision, read.commit) == ("acme/model", "main", COMMIT)
    assert set(read.files) == set(LISTING.files)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object of version 1"),
        (lock(version=2), "expected an object of version 1"),
        (lock(repository=""), "repository is '', expected a text"),
        (lock(commit="main"), "commit is 'main', expected 40 hexadecimal digits"),
        (lock(files=[]), "files is missing or empty"),
        (lock(files=[7]), "file entry 7 has no usable path"),
        (lock(files=[{"path": "../up", "size": 1, "sha256": "a" * 64}]), "no usable path"),
        (lock(files=[{"path": "a", "size": True, "sha256": "a" * 64}]), "a: size is True"),
        (lock(files=[{"path": "a", "size": -1, "sha256": "a" * 64}]), "a: size is -1"),
        (lock(files=[{"path": "a", "size": 1, "sha256": "A" * 64}]), "a: sha256 is"),
        (lock(files=[{"path": "a", "size": 1, "sha256": None}]), "a: sha256 is None"),
        (lock(files=2 * [{"path": "a", "size": 1, "sha256": "a" * 64}], total_bytes=2), "a: is listed 2 times"),
        (lock(total_bytes=4), "total_bytes is 4, but the files sum to 3"),
    ],
)
def test_a_bad_lock_is_refused_with_its_name_and_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(StagerError) as refused:
        parse_lock(text, "weights/x.lock.json")
    assert "lock weights/x.lock.json" in str(refused.value)
    assert said in str(refused.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    text = lock(commit="x", revision=3, files=[{"path": "a", "size": "1", "sha256": ""}])
    with pytest.raises(StagerError) as refused:
        parse_lock(text, "x")
    assert str(refused.value).count(";") == 3


def test_a_path_of_thousands_of_digits_is_one_short_line() -> None:
    """As a set of so many shards, which no number holds."""
    with pytest.raises(StagerError) as refused:
        parse_lock(lock(files=[{"path": f"m-1-of-{'9' * 4400}.gguf", "size": 1, "sha256": "a" * 64}]), "x")
    assert "has no usable path" in str(refused.value)
    assert len(str(refused.value)) < 300
