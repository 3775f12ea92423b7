"""The identity of staged weights, and the lock that may pin them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from config.errors import StackError
from config.stack.sections import Model
from config.stack.weights import read_lock, weights_digest

COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
KIMI = Model(repository="moonshotai/Kimi-K2.5", revision=COMMIT)


def lock_file(folder: Path, **changes: Any) -> Path:
    path = folder / "kimi.lock.json"
    fields = {
        "version": 1,
        "repository": "moonshotai/Kimi-K2.5",
        "revision": COMMIT,
        "commit": COMMIT,
        "files": [
            {"path": "b.safetensors", "size": 7, "sha256": "0" * 64},
            {"path": "a.json", "size": 3, "sha256": "1" * 64},
        ],
        "total_bytes": 10,
    } | changes
    path.write_text(json.dumps(fields))
    return path


def test_the_digest_is_that_of_the_canonical_json() -> None:
    canonical = (
        '{"include":[],"lock_sha256":null,"repository":"moonshotai/Kimi-K2.5",'
        '"revision":"4d01dfe0332d63057c186e0b262165819efb6611"}'
    )
    assert weights_digest(KIMI, None) == hashlib.sha256(canonical.encode()).hexdigest()[:16]


def test_the_order_of_patterns_does_not_make_other_weights() -> None:
    one = KIMI.model_copy(update={"include": ["*.json", "*.safetensors"]})
    other = KIMI.model_copy(update={"include": ["*.safetensors", "*.json", "*.json"]})
    assert weights_digest(one, None) == weights_digest(other, None)


def test_each_part_of_the_identity_makes_other_weights(tmp_path: Path) -> None:
    lock = read_lock(lock_file(tmp_path), KIMI)
    digests = {
        weights_digest(KIMI, None),
        weights_digest(KIMI.model_copy(update={"repository": "moonshotai/Kimi-K2.6"}), None),
        weights_digest(KIMI.model_copy(update={"revision": "0" * 40}), None),
        weights_digest(KIMI.model_copy(update={"include": ["*.json"]}), None),
        weights_digest(KIMI, lock.sha256),
    }
    assert len(digests) == 5


def test_allowing_a_branch_does_not_make_other_weights() -> None:
    assert weights_digest(KIMI.model_copy(update={"allow_unpinned": True}), None) == weights_digest(KIMI, None)


def test_a_lock_is_read_with_its_bytes_and_files(tmp_path: Path) -> None:
    path = lock_file(tmp_path)
    lock = read_lock(path, KIMI)
    assert lock.total_bytes == 10
    assert lock.files == ("a.json", "b.safetensors")
    assert lock.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"repository": "moonshotai/Kimi-K2.6"}, "pins moonshotai/Kimi-K2.6"),
        ({"commit": "0" * 40}, f"expected moonshotai/Kimi-K2.5 at {COMMIT}"),
        ({"files": "all"}, "files is missing or empty"),
        ({"files": []}, "files is missing or empty"),
        ({"files": [{"path": "a", "size": -1, "sha256": "x"}]}, "a: size is -1, expected bytes; a: sha256 is 'x'"),
        ({"files": [{}] * 10}, "; and 2 more"),
        ({"total_bytes": "10"}, "total_bytes is '10', but the files sum to 10"),
        ({"total_bytes": float("nan")}, "total_bytes is nan"),
        ({"version": 2}, "expected an object of version 1"),
    ],
)
def test_a_lock_of_something_else_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(StackError, match=reason) as caught:
        read_lock(lock_file(tmp_path, **changes), KIMI)
    assert caught.value.faults[0].startswith("heavylift:stage.lock: ")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{}", b"[]", b"[" * 100_000, b"null", b'{"version": 1'])
def test_a_file_that_is_no_lock_at_all_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.lock.json"
    path.write_bytes(content)
    with pytest.raises(StackError, match=r"x\.lock\.json: (is )?(not|expected)"):
        read_lock(path, KIMI)


def test_a_lock_that_is_not_there_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"none\.lock\.json: cannot be read: No such file or directory"):
        read_lock(tmp_path / "none.lock.json", KIMI)
