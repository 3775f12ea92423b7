"""What the server's init container accepts and what it refuses, with verify.py run alone, as it runs there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.stager.staged_tree import LARGE, edit_manifest, write_staged_tree

VERIFY = Path(__file__).parents[3] / "stager" / "verify.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    contents = {"config.json": b"{}", "nested/model.gguf": b"w" * LARGE, "empty": b""}
    return write_staged_tree(tmp_path / "tree", contents)


def verify(tree: Path, *options: str, log: Path | None = None) -> tuple[int, list[str]]:
    """Exit status and lines of output; isolated, so that it cannot import the package it lies in."""
    termination = ["--termination-log", str(log)] if log else []
    command = [sys.executable, "-I", str(VERIFY), str(tree), *options, *termination]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.returncode, (ended.stdout + ended.stderr).splitlines()


def test_an_untouched_tree_is_accepted(tree: Path) -> None:
    status, lines = verify(tree)
    assert (status, len(lines)) == (0, 1)
    assert f"3 files, {LARGE + 2:,} bytes" in lines[0]


def test_a_directory_without_manifest_is_refused(tree: Path) -> None:
    (tree / ".heavylift/manifest.json").unlink()
    status, lines = verify(tree)
    assert status == 1
    assert "no manifest" in lines[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 1}', '{"version": 2}'])
def test_a_damaged_manifest_is_refused_without_a_traceback(tree: Path, text: str) -> None:
    (tree / ".heavylift/manifest.json").write_text(text)
    status, lines = verify(tree)
    assert status == 1
    assert len(lines) == 1
    assert "manifest" in lines[0]


def test_a_manifest_that_leaves_the_directory_is_refused(tree: Path) -> None:
    entry = {"path": "../outside", "size": 0, "sha256": "0" * 64, "mtime_ns": 0}
    edit_manifest(tree, files=[entry], total_bytes=0)
    assert "leaves the directory" in verify(tree)[1][0]


def test_another_repository_and_another_revision_are_both_named(tree: Path) -> None:
    status, lines = verify(tree, "--repository", "acme/other", "--revision", "v2")
    assert status == 1
    assert [line for line in lines if "expected 'acme/other'" in line]
    assert [line for line in lines if "expected 'v2'" in line]


def test_the_expected_repository_and_revision_are_accepted(tree: Path) -> None:
    assert verify(tree, "--repository", "acme/tiny", "--revision", "main")[0] == 0


def overwrite_in_place(tree: Path) -> None:
    with (tree / "nested/model.gguf").open("r+b") as file:
        file.seek(LARGE // 2)
        file.write(b"X")


def overwrite_and_set_the_time_back(tree: Path) -> None:
    path = tree / "nested/model.gguf"
    before = path.stat()
    overwrite_in_place(tree)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap_for_another_of_the_same_size(tree: Path) -> None:
    path = tree / "nested/model.gguf"
    before = path.stat()
    other = tree / "nested/.other"
    other.write_bytes(b"v" * LARGE)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def truncate(tree: Path) -> None:
    os.truncate(tree / "nested/model.gguf", LARGE - 1)


def remove(tree: Path) -> None:
    (tree / "nested/model.gguf").unlink()


def link_to_a_copy(tree: Path) -> None:
    path = tree / "nested/model.gguf"
    path.rename(tree / "nested/.copy")
    path.symlink_to(".copy")


def link_the_folder(tree: Path) -> None:
    (tree / "nested").rename(tree.parent / "elsewhere")
    (tree / "nested").symlink_to(tree.parent / "elsewhere")


def make_a_folder_of_it(tree: Path) -> None:
    remove(tree)
    (tree / "nested/model.gguf").mkdir()


@pytest.mark.parametrize(
    "alter",
    [
        overwrite_in_place,
        overwrite_and_set_the_time_back,
        swap_for_another_of_the_same_size,
        truncate,
        remove,
        link_to_a_copy,
        link_the_folder,
        make_a_folder_of_it,
    ],
)
def test_a_large_file_altered_after_staging_is_refused_by_the_quick_check(
    tree: Path, alter: Callable[[Path], None]
) -> None:
    alter(tree)
    status, lines = verify(tree)
    assert status == 1
    assert len(lines) == 1
    assert "nested/model.gguf" in lines[0]


def test_a_small_file_is_hashed_whatever_its_times_say(tree: Path) -> None:
    path = tree / "config.json"
    before = path.stat()
    path.write_bytes(b"[]")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "config.json: SHA-256 is" in verify(tree)[1][0]


def test_a_foreign_file_that_an_engine_might_load_is_refused(tree: Path) -> None:
    (tree / "model-99.safetensors").write_bytes(b"")
    (tree / ".nfs0001").write_bytes(b"left by a network file system")
    status, lines = verify(tree)
    assert status == 1
    assert lines == ["verify: model-99.safetensors: not in the manifest; remove it"]


def test_a_copied_tree_with_new_times_is_hashed_and_accepted(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tree, copy, copy_function=shutil.copyfile)
    assert verify(copy)[0] == 0


def test_a_file_with_new_permissions_is_hashed_and_accepted(tree: Path) -> None:
    (tree / "nested/model.gguf").chmod(0o600)
    assert verify(tree)[0] == 0


def test_what_only_a_full_check_can_see_is_seen_by_it(tree: Path) -> None:
    """The quick check trusts size and times; a record with another hash stands for a disk that lost bytes."""
    files = json.loads((tree / ".heavylift/manifest.json").read_text())["files"]
    files[1]["sha256"] = "0" * 64
    edit_manifest(tree, files=files)
    assert verify(tree)[0] == 0
    status, lines = verify(tree, "--full")
    assert status == 1
    assert "nested/model.gguf: SHA-256 is" in lines[0]


def test_every_problem_is_said_at_once_and_left_as_the_termination_message(tree: Path, tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    truncate(tree)
    (tree / "empty").unlink()
    status, lines = verify(tree, log=log)
    assert status == 1
    assert len(lines) == 2
    message = log.read_text()
    assert "empty: missing" in message
    assert f"expected {LARGE}" in message
