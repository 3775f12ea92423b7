"""The weights lock: written from the hub or from a staged directory; `stage` follows it exactly."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import HubClient

from .conftest import COMMIT, SHARD, RunStager
from .running import Ended, Stager, is_marked_complete

CONFIG = b'{"model_type": "lab"}\n'
RunLock = Callable[..., Ended]


@pytest.fixture
def lock(hub: HubClient, tmp_path: Path) -> RunLock:
    def run(*arguments: str | Path) -> Ended:
        return Stager(["lock", *arguments], log_directory=tmp_path, HF_ENDPOINT=hub.url).wait()

    return run


@pytest.fixture
def written(lock: RunLock, tmp_path: Path) -> Path:
    path = tmp_path / "model.lock.json"
    assert lock("acme/model", "--revision", "main", "--output", path).status == 0
    return path


def edit(path: Path, place: str, **changes: Any) -> None:
    """Changes the entry of one file."""
    content = json.loads(path.read_text())
    next(entry for entry in content["files"] if entry["path"] == place).update(changes)
    content["total_bytes"] = sum(entry["size"] for entry in content["files"])
    path.write_text(json.dumps(content))


def test_a_lock_has_a_sha256_for_small_files_too_and_fetches_no_large_one(written: Path, hub: HubClient) -> None:
    content = json.loads(written.read_text())
    hashes = {entry["path"]: entry["sha256"] for entry in content["files"]}
    assert content["commit"] == COMMIT
    assert content["revision"] == "main"
    assert hashes["config.json"] == hashlib.sha256(CONFIG).hexdigest()
    assert hub.bytes_sent() < 1000


def test_a_lock_of_what_was_staged_is_the_lock_from_the_hub(
    lock: RunLock, stage: RunStager, written: Path, tmp_path: Path
) -> None:
    assert stage("--allow-unpinned", revision="main").status == 0
    path = tmp_path / "from-manifest.lock.json"
    assert lock("--from-manifest", tmp_path / "tree", "--output", path).status == 0
    assert path.read_text() == written.read_text()


def test_a_small_file_that_does_not_match_its_git_blob_gets_no_lock(
    lock: RunLock, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("flip", path="*config.json", method="GET", offset=3)
    ended = lock("acme/model", "--revision", "main", "--output", tmp_path / "x.json")
    assert ended.status == 1
    assert "config.json: expected git blob" in ended.message
    assert not (tmp_path / "x.json").exists()


def test_what_is_staged_by_a_lock_must_be_what_the_lock_says(stage: RunStager, written: Path, tmp_path: Path) -> None:
    edit(written, "config.json", sha256="0" * 64)
    ended = stage("--lock", written)
    assert ended.status == 1
    assert "config.json: wrong content from hub" in ended.message
    assert f"expected SHA-256 {'0' * 64}, found SHA-256 {hashlib.sha256(CONFIG).hexdigest()}" in ended.message
    assert not is_marked_complete(tmp_path / "tree")


def test_a_size_that_the_source_does_not_have_is_refused(stage: RunStager, written: Path) -> None:
    edit(written, "model-00001-of-00002.safetensors", size=SHARD - 1)
    assert f"{SHARD} bytes there, expected {SHARD - 1}" in stage("--lock", written).message


def test_a_tree_that_is_complete_by_another_lock_is_staged_again(
    stage: RunStager, written: Path, tmp_path: Path
) -> None:
    assert stage("--lock", written).status == 0
    again = stage("--lock", written)
    assert "already staged" in again.log
    edit(written, "config.json", sha256="0" * 64)
    ended = stage("--lock", written)
    assert ended.status == 1
    assert "the manifest lists other files than the lock" in ended.log
    assert not is_marked_complete(tmp_path / "tree")


def test_a_lock_of_another_repository_or_revision_is_refused(stage: RunStager, written: Path) -> None:
    assert "is of acme/model, expected acme/one" in stage("--lock", written, repository="acme/one").message
    refused = stage("--lock", written, revision="f" * 40).message
    assert f"is of revision main (commit {COMMIT}), expected {'f' * 40}" in refused


def test_a_lock_that_is_missing_or_damaged_is_refused_in_one_line(
    stage: RunStager, written: Path, tmp_path: Path
) -> None:
    assert "cannot be read: No such file" in stage("--lock", tmp_path / "absent.json").message
    written.write_text(written.read_text()[:-40])
    ended = stage("--lock", written)
    assert "not valid JSON" in ended.message
    assert "Traceback" not in ended.log


def test_neither_repository_nor_directory_is_refused(lock: RunLock) -> None:
    assert "expected REPOSITORY and --revision" in lock().message
