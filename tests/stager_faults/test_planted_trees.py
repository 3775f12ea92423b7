"""Files of another program in the directory: the stager keeps right ones, and changes nothing outside."""

import json
import os
import random
from pathlib import Path

import pytest

from stager.manifest import read_manifest
from stager.verify import problems

from .conftest import RunStager
from .small_share import Share

LARGE = 17 * 1024 * 1024
"""The quick check hashes smaller files always."""
CONTENTS = {"model.bin": random.Random(1).randbytes(LARGE), "sub/config.json": b'{"a": 1}'}


@pytest.fixture
def share(tmp_path: Path) -> Share:
    return Share(tmp_path, CONTENTS)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.mark.parametrize("content", [b"precious data of somebody else", CONTENTS["sub/config.json"]])
def test_a_file_behind_a_linked_folder_is_neither_removed_nor_accepted(
    stage: RunStager, share: Share, tree: Path, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/config.json").write_bytes(content)
    (tree / "sub").symlink_to("../outside")
    for _ in range(2):
        ended = stage(*share.options)
        assert (ended.status, ended.message.count("\n")) == (1, 0)
        assert "sub: is a symbolic link" in ended.message
        assert (tmp_path / "outside/config.json").read_bytes() == content
    assert problems(tree)


def test_the_rest_of_an_earlier_stager_beside_a_complete_file_is_removed(
    stage: RunStager, share: Share, tree: Path
) -> None:
    (tree / "model.bin").write_bytes(CONTENTS["model.bin"])
    (tree / "model.bin.part").write_bytes(CONTENTS["model.bin"][:1000])
    ended = stage(*share.options)
    assert ended.status == 0, ended.log
    assert not (tree / "model.bin.part").exists()
    assert problems(tree, full=True) == []


def plant(share: Share, tree: Path) -> None:
    """Creates files of zeros with the paths and sizes of the lock."""
    for file in share.files:
        (tree / str(file["path"])).parent.mkdir(exist_ok=True)
        (tree / str(file["path"])).write_bytes(bytes(int(str(file["size"]))))
    (tree / ".heavylift").mkdir()


def test_zeros_with_a_manifest_of_the_right_hashes_are_staged_again(stage: RunStager, share: Share, tree: Path) -> None:
    plant(share, tree)
    files = [{**file, "mtime_ns": (tree / str(file["path"])).stat().st_mtime_ns} for file in share.files]
    manifest = {**json.loads(share.lock.read_text()), "files": files, "completed_at": "2099-01-01T00:00:00+00:00"}
    (tree / ".heavylift/manifest.json").write_text(json.dumps(manifest))
    assert "model.bin: SHA-256 is" in problems(tree)[0]
    ended = stage(*share.options)
    assert ended.status == 0, ended.log
    assert "staging again: model.bin: SHA-256 is" in ended.log
    assert share.is_in(tree)


def test_a_name_in_the_lock_that_is_a_pipe_in_the_directory_is_refused(
    stage: RunStager, share: Share, tree: Path
) -> None:
    os.mkfifo(tree / "model.bin")
    ended = stage(*share.options)
    assert (ended.status, "Traceback" in ended.log) == (1, False)
    assert "model.bin" in ended.message


def test_an_empty_file_with_another_hash_in_the_lock_is_refused_at_once(stage: RunStager, tmp_path: Path) -> None:
    share = Share(tmp_path, {"config.json": b"{}", "empty.txt": b""})
    lock = json.loads(share.lock.read_text())
    lock["files"][1]["sha256"] = "0" * 64
    share.lock.write_text(json.dumps(lock))
    ended = stage(*share.options)
    assert ended.status == 1
    assert "empty.txt: is listed with 0 bytes, but its hash" in ended.message


def untouched(tree: Path) -> bool:
    """Returns whether the manifest has the present times and inodes, so that the quick check reads no large file."""
    return all(file.is_untouched((tree / file.path).stat()) for file in read_manifest(tree).files)


def test_a_tree_with_new_times_is_hashed_once_and_not_at_every_start(
    stage: RunStager, share: Share, tree: Path
) -> None:
    """As after a recursive change of owner, and after an upgrade from manifests of version 1."""
    assert stage(*share.options).status == 0
    (tree / "model.bin").chmod(0o640)
    assert not untouched(tree)
    ended = stage(*share.options)
    assert "already staged" in ended.log, ended.log
    assert untouched(tree)

    manifest = json.loads((tree / ".heavylift/manifest.json").read_text())
    files = [{key: file[key] for key in ("path", "size", "sha256", "mtime_ns")} for file in manifest["files"]]
    (tree / ".heavylift/manifest.json").write_text(json.dumps({**manifest, "version": 1, "files": files}))
    assert "already staged" in stage(*share.options).log
    assert read_manifest(tree).version == 2
    assert untouched(tree)


def test_a_file_with_another_name_is_replaced_by_a_copy_before_the_manifest(
    stage: RunStager, share: Share, tree: Path, tmp_path: Path
) -> None:
    """Through that name, another program could change what the manifest lists."""
    names = {name: tmp_path / f"other-{number}" for number, name in enumerate(CONTENTS)}
    (tree / "sub").mkdir()
    for name, other in names.items():
        other.write_bytes(CONTENTS[name])
        (tree / name).hardlink_to(other)
    ended = stage(*share.options)
    assert ended.status == 0, ended.log
    assert "100% re-used" in ended.log
    for other in names.values():
        other.write_bytes(b"changed")
    assert problems(tree, full=True) == []
    assert share.is_in(tree)


def test_a_file_that_got_another_name_after_the_manifest_is_replaced_by_a_copy(
    stage: RunStager, share: Share, tree: Path, tmp_path: Path
) -> None:
    assert stage(*share.options).status == 0
    (tmp_path / "other").hardlink_to(tree / "model.bin")
    ended = stage(*share.options)
    assert ended.status == 0, ended.log
    assert "staging again: model.bin: has 2 names (hard links)" in ended.log
    (tmp_path / "other").write_bytes(b"changed")
    assert problems(tree, full=True) == []
