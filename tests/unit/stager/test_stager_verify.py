"""What the server's init container accepts and what it refuses, with verify.py run as a file, as it runs there."""

import bz2
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stager.order import NOT_KNOWN, files_sha256, ordered_files, ordered_sha256
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


def test_a_manifest_that_comes_is_waited_for_and_what_is_waited_for_is_said(tree: Path) -> None:
    manifest, elsewhere = tree / ".heavylift/manifest.json", tree.parent / "manifest.json"
    manifest.rename(elsewhere)
    command = [sys.executable, "-I", str(VERIFY), str(tree), "--wait-seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        assert waiting.stdout.readline() == (
            f"waiting for {manifest}, which the stager of this node writes: 0 of 60 s\n"
        )
        elsewhere.rename(manifest)
        assert waiting.stdout.readline().startswith("verified 3 files")
    assert waiting.returncode == 0


def test_a_manifest_that_never_comes_is_refused_with_how_long_it_was_waited_for(tree: Path, tmp_path: Path) -> None:
    for missing in (tree, tmp_path / "not made yet"):
        (missing / ".heavylift/manifest.json").unlink(missing_ok=True)
        status, lines = verify(missing, "--wait-seconds", "0.3")
        assert status == 1
        assert "no manifest" in lines[-1]
        assert lines[-1].endswith("; waited 0 s for it")


def test_another_manifest_is_refused_at_once_whatever_the_wait(tree: Path) -> None:
    status, lines = verify(tree, "--wait-seconds", "3600", "--revision", "another")
    assert status == 1
    assert "revision is 'main', expected 'another'" in lines[0]


def test_a_wait_ends_at_once_with_the_pod(tree: Path) -> None:
    (tree / ".heavylift/manifest.json").unlink()
    command = [sys.executable, "-I", str(VERIFY), str(tree), "--wait-seconds", "3600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        assert waiting.stdout.readline().startswith("waiting for ")
        waiting.terminate()
    assert waiting.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 1}', '{"version": 3}', '{"version": 2, "files": [{"path": 1}]}']
)
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
    other = tree.parent / "other"
    other.write_bytes(b"v" * LARGE)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def truncate(tree: Path) -> None:
    os.truncate(tree / "nested/model.gguf", LARGE - 1)


def remove(tree: Path) -> None:
    (tree / "nested/model.gguf").unlink()


def link_to_a_copy(tree: Path) -> None:
    path = tree / "nested/model.gguf"
    path.rename(tree.parent / "copy")
    path.symlink_to(tree.parent / "copy")


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


def a_link_to_a_folder(tree: Path) -> None:
    """As `additional_chat_templates`, which an engine would read in place of the repository's own template."""
    (tree.parent / "evil").mkdir()
    (tree.parent / "evil/default.jinja").write_text("EVIL")
    (tree / "foreign").symlink_to(tree.parent / "evil")


def a_link_to_a_file(tree: Path) -> None:
    (tree / "foreign").symlink_to(tree / "config.json")


def a_link_to_nothing(tree: Path) -> None:
    (tree / "foreign").symlink_to("nothing")


def an_empty_folder(tree: Path) -> None:
    (tree / "foreign").mkdir()


def a_folder(tree: Path) -> None:
    (tree / "foreign").mkdir()
    (tree / "foreign/evil.py").touch()


def a_pipe(tree: Path) -> None:
    os.mkfifo(tree / "foreign")


def a_file_with_a_dot(tree: Path) -> None:
    (tree / ".cache").mkdir()
    (tree / ".cache/evil.py").touch()


def a_folder_called_as_a_removed_file(tree: Path) -> None:
    (tree / ".nfs0001").mkdir()


@pytest.mark.parametrize(
    "plant",
    [
        a_link_to_a_folder,
        a_link_to_a_file,
        a_link_to_nothing,
        an_empty_folder,
        a_folder,
        a_pipe,
        a_file_with_a_dot,
        a_folder_called_as_a_removed_file,
    ],
)
def test_whatever_is_not_in_the_manifest_is_refused(tree: Path, plant: Callable[[Path], None]) -> None:
    plant(tree)
    status, lines = verify(tree, "--full")
    assert status == 1
    assert len(lines) == 1
    assert "not in the manifest; remove it" in lines[0]


def test_a_name_that_is_no_text_is_refused_in_one_line(tree: Path, tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    with open(os.fsencode(tree) + b"/\xff.bin", "w"):  # noqa: PTH123 - no Path holds such a name
        pass
    status, lines = verify(tree, log=log)
    assert (status, len(lines)) == (1, 1)
    assert "not in the manifest" in log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to look as somebody else")
def test_a_folder_that_cannot_be_looked_into_is_refused(tree: Path) -> None:
    (tree / "nested").chmod(0o700)
    for path in (tree, *tree.parents):
        path.chmod(path.stat().st_mode | 0o055)
    program = shutil.copytree(VERIFY.parent, tree.parent / "stager") / VERIFY.name
    command = ["/usr/bin/env", "python3", "-I", str(program), str(tree)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, user=65534)
    assert ended.returncode == 1, ended.stdout
    assert "Permission denied" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_foreign_file_in_the_stagers_own_folder_is_ignored_since_no_engine_looks_there(tree: Path) -> None:
    for folder in (tree / ".heavylift/newer", tree / "newer"):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"w")
    assert verify(tree) == (1, ["verify: newer: not in the manifest; remove it"])


@pytest.mark.parametrize("place", [".", ".heavylift"])
def test_a_link_in_the_place_of_the_stagers_own_folder_is_refused(tree: Path, place: str) -> None:
    moved = tree.parent / "moved"
    (tree / place).resolve().rename(moved)
    Path(str(tree / place)).symlink_to(moved)
    status, lines = verify(tree)
    assert (status, len(lines)) == (1, 1)
    assert "is a symbolic link" in lines[0]


def test_no_clock_decides_what_was_changed(tree: Path) -> None:
    """Staged while a clock was ahead, or copied to where it is behind: changed bytes are seen all the same."""
    edit_manifest(tree, completed_at="2999-01-01T00:00:00+00:00")
    overwrite_and_set_the_time_back(tree)
    assert verify(tree)[0] == 1


def test_a_manifest_of_version_1_passes_after_one_full_hash(tree: Path) -> None:
    files = json.loads((tree / ".heavylift/manifest.json").read_text())["files"]
    kept = [{key: file[key] for key in ("path", "size", "sha256", "mtime_ns")} for file in files]
    edit_manifest(tree, version=1, files=kept)
    assert verify(tree)[0] == 0
    overwrite_and_set_the_time_back(tree)
    assert "nested/model.gguf: SHA-256 is" in verify(tree)[1][0]


def entries_of(tree: Path) -> list[tuple[str, int, str]]:
    files = json.loads((tree / ".heavylift/manifest.json").read_text())["files"]
    return [(file["path"], file["size"], file["sha256"]) for file in files]


def alter_with_its_manifest(tree: Path) -> None:
    """The weights and what is said of them, changed together."""
    (tree / "config.json").write_bytes(b"[]")
    files = json.loads((tree / ".heavylift/manifest.json").read_text())["files"]
    files[0]["sha256"] = hashlib.sha256(b"[]").hexdigest()
    edit_manifest(tree, files=files)


def add_with_its_manifest(tree: Path) -> None:
    (tree / "modeling_evil.py").write_bytes(b"")
    files = json.loads((tree / ".heavylift/manifest.json").read_text())["files"]
    edit_manifest(tree, files=[*files, {**files[2], "path": "modeling_evil.py"}])


@pytest.mark.parametrize("alter", [alter_with_its_manifest, add_with_its_manifest])
@pytest.mark.parametrize("whole", [True, False], ids=["every file is known", "only one hash of all is known"])
@pytest.mark.parametrize("compressed", [True, False])
def test_weights_that_were_changed_together_with_their_manifest_are_refused(
    tree: Path, tmp_path: Path, alter: Callable[[Path], None], whole: bool, compressed: bool
) -> None:
    entries = entries_of(tree)
    text = ordered_files(entries) if whole else ordered_sha256(files_sha256(entries))
    ordered = tmp_path / "ordered"
    ordered.write_bytes(bz2.compress(text.encode()) if compressed else text.encode())
    status, lines = verify(tree, "--ordered", str(ordered))
    assert (status, len(lines)) == (0, 1)
    assert "as ordered" in lines[0]
    alter(tree)
    assert verify(tree)[0] == 0, "what lies beside the weights knows nothing of it"
    status, lines = verify(tree, "--ordered", str(ordered))
    assert (status, len(lines)) == (1, 1)
    assert "other files than were ordered" in lines[0]
    assert not whole or {"config.json", "modeling_evil.py"} & set(re.split(r"[ ,;]+", lines[0]))


def test_one_hash_of_all_files_is_of_their_sorted_lines() -> None:
    """As `printf 'a 1 %s\\nb 2 %s\\n' ... | sha256sum` gives it."""
    one, two = "0" * 64, "f" * 64
    expected = hashlib.sha256(f"a 1 {one}\nb 2 {two}\n".encode()).hexdigest()
    assert files_sha256([("b", 2, two), ("a", 1, one)]) == expected


def test_an_order_that_is_not_known_lets_any_files_pass(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "ordered").write_text(ordered_sha256(NOT_KNOWN))
    status, lines = verify(tree, "--ordered", str(tmp_path / "ordered"))
    assert (status, "as ordered" in lines[0]) == (0, False)
    alter_with_its_manifest(tree)
    assert verify(tree, "--ordered", str(tmp_path / "ordered"))[0] == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": [1]}', '{"files": [["a", "x", "y"]]}', "BZh", "BZh9"])
def test_an_order_that_makes_no_sense_lets_nothing_pass(tree: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "ordered").write_bytes(text.encode("latin-1"))
    status, lines = verify(tree, "--ordered", str(tmp_path / "ordered"))
    assert (status, len(lines)) == (1, 1)
    assert "does not say what was ordered" in lines[0]


def test_the_order_that_travels_beside_the_program_is_found(tree: Path, tmp_path: Path) -> None:
    program = shutil.copytree(VERIFY.parent, tmp_path / "stager") / "verify.py"
    (tmp_path / "stager/ordered.json.bz2").write_bytes(bz2.compress(ordered_files(entries_of(tree)[1:]).encode()))
    ended = subprocess.run([sys.executable, program, tree], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "other files than were ordered: config.json" in ended.stderr


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
