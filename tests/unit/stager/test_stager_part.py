"""A file that several streams write in any order is hashed as if it had come in order."""

import errno
import hashlib
import itertools
import os
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stager.checkpoints import Checkpoint, Checkpoints
from stager.errors import StagerError, Stopped
from stager.listing import RemoteFile
from stager.part import BLOCK_BYTES, Part
from stager.parts import Parts
from stager.tree import Tree

MIB = 1024 * 1024


def file_of(content: bytes, path: str = "model.gguf") -> RemoteFile:
    return RemoteFile(path, len(content), hashlib.sha256(content).hexdigest())


def ignore(_: int) -> None:
    """Nobody watches."""


def part_of(directory: Path, content: bytes, number: int = 1, given_back: int | None = None) -> Part:
    """The file as the holder of lease `number` makes it."""
    tree = Tree(directory)
    parts = Parts(tree, number)
    parts.prepare(given_back)
    return Part(tree, parts, file_of(content))


@given(seed=st.integers(0, 2**32), size=st.integers(1, 200_000), streams=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_pieces_in_any_order_give_the_right_hash(
    seed: int, size: int, streams: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    content = chance.randbytes(size)
    cuts = sorted({0, size, *(chance.randint(0, size) for _ in range(streams * 3))})
    pieces = list(itertools.pairwise(cuts))
    chance.shuffle(pieces)
    part = part_of(tmp_path_factory.mktemp("part"), content)
    part.open(ignore)
    for start, end in pieces:
        part.write(start, content[start:end])
    assert part.hashed == size
    assert part.problem() is None
    part.finish()
    assert part.path.read_bytes() == content


def test_streams_that_write_at_once_give_the_right_hash(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(8 * MIB)
    part = part_of(tmp_path, content)
    part.open(ignore)

    def write(first: int) -> None:
        for start in range(first * 64 * 1024, len(content), 4 * 64 * 1024):
            part.write(start, content[start : start + 64 * 1024])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert part.problem() is None
    assert part.hashed == len(content)


@pytest.fixture
def content() -> bytes:
    return random.Random(2).randbytes(3 * BLOCK_BYTES + 5)


def interrupted(directory: Path, content: bytes, upto: int) -> Part:
    """A part that was written up to somewhere, by a run that then ended."""
    part = part_of(directory, content)
    part.open(ignore)
    for start in range(0, upto, MIB):
        part.write(start, content[start : min(start + MIB, upto)])
    part.close()
    return part_of(directory, content)


def in_the_making(directory: Path, number: int = 1) -> Path:
    """Where the bytes of the file lie that the holder of lease `number` makes."""
    return next(path for path in (directory / f".heavylift/parts/{number}").iterdir() if not path.suffix)


def test_a_resumed_part_keeps_all_whole_blocks(tmp_path: Path, content: bytes) -> None:
    part = interrupted(tmp_path, content, 2 * BLOCK_BYTES + 7 * MIB)
    part.open(ignore)
    assert part.hashed == 2 * BLOCK_BYTES


def test_a_resumed_part_keeps_only_what_comes_before_a_wrong_byte(tmp_path: Path, content: bytes) -> None:
    part = interrupted(tmp_path, content, len(content))
    with in_the_making(tmp_path).open("r+b") as file:
        file.seek(BLOCK_BYTES + 3)
        file.write(b"?")
    part.open(ignore)
    assert part.hashed == BLOCK_BYTES


def test_a_part_that_lost_its_end_is_kept_up_to_there(tmp_path: Path, content: bytes) -> None:
    """As after a power failure, when the file system kept the checkpoints but not all of the data."""
    part = interrupted(tmp_path, content, len(content))
    os.truncate(in_the_making(tmp_path), 2 * BLOCK_BYTES - 1)
    part.open(ignore)
    assert part.hashed == BLOCK_BYTES


def test_a_part_of_other_content_is_not_built_upon(tmp_path: Path, content: bytes) -> None:
    interrupted(tmp_path, content, len(content))
    other = bytes(len(content))
    part = part_of(tmp_path, other)
    part.open(ignore)
    assert part.hashed == 0


def test_a_checkpoint_that_was_written_half_is_ignored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Tree(tmp_path), "notes", file_of(b"x"))
    marks = [Checkpoint(1, "a" * 64), Checkpoint(2, "b" * 64)]
    checkpoints.restart(marks)
    path = tmp_path / "notes"
    path.write_text(path.read_text()[:-30])
    assert checkpoints.read() == marks[:1]


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe", b"[1]\n[2]\n", b"\n\n\n"])
def test_checkpoints_of_garbage_are_none(tmp_path: Path, garbage: bytes) -> None:
    checkpoints = Checkpoints(Tree(tmp_path), "notes", file_of(b"x"))
    checkpoints.restart([Checkpoint(1, "0" * 64)])
    path = tmp_path / "notes"
    path.write_bytes(path.read_bytes() + garbage)
    assert checkpoints.read() == [Checkpoint(1, "0" * 64)]
    path.write_bytes(garbage)
    assert checkpoints.read() == []


def test_what_a_predecessor_gave_back_is_taken_over_as_it_is(tmp_path: Path, content: bytes) -> None:
    interrupted(tmp_path, content, BLOCK_BYTES)
    inode = in_the_making(tmp_path).stat().st_ino
    part = part_of(tmp_path, content, number=2, given_back=1)
    part.open(ignore)
    assert part.hashed == BLOCK_BYTES
    assert in_the_making(tmp_path, 2).stat().st_ino == inode


def test_a_predecessor_that_may_still_write_reaches_nothing_of_its_successor(tmp_path: Path, content: bytes) -> None:
    frozen = part_of(tmp_path, content)
    frozen.open(ignore)
    frozen.write(0, content[:BLOCK_BYTES])
    part = part_of(tmp_path, content, number=2)
    part.open(ignore)
    assert part.hashed == BLOCK_BYTES, "what it left is kept"
    frozen.write(BLOCK_BYTES, b"?" * MIB)
    frozen.restart()
    for start in range(BLOCK_BYTES, len(content), MIB):
        part.write(start, content[start : start + MIB])
    part.finish()
    with pytest.raises(FileNotFoundError):
        frozen.finish()
    assert part.path.read_bytes() == content


@pytest.mark.parametrize("looks", range(1, 5))
def test_a_takeover_that_was_interrupted_is_made_anew(tmp_path: Path, content: bytes, looks: int) -> None:
    """A holder copies checkpoints and bytes, and is stopped as it looks for the first, second, … time."""
    interrupted(tmp_path, content, BLOCK_BYTES)
    calls = itertools.count(1)

    def stop(_: int) -> None:
        if next(calls) == looks:
            raise Stopped

    with pytest.raises(Stopped):
        part_of(tmp_path, content, number=2).open(stop)
    part = part_of(tmp_path, content, number=3, given_back=2)
    part.open(ignore)
    assert part.hashed == BLOCK_BYTES
    assert {path.suffix for path in tmp_path.glob(".heavylift/parts/3/*")} == {"", ".checkpoints"}


def test_without_room_for_a_copy_what_was_left_is_given_up(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path, content, BLOCK_BYTES)
    monkeypatch.setattr("stager.parts.free_bytes", lambda _: BLOCK_BYTES)
    part = part_of(tmp_path, content, number=2)
    part.open(ignore)
    assert part.hashed == 0
    assert not list((tmp_path / ".heavylift/parts/1").iterdir()), "its room is free"


def test_what_an_earlier_stager_left_beside_the_files_is_kept(tmp_path: Path, content: bytes) -> None:
    interrupted(tmp_path, content, BLOCK_BYTES)
    (tmp_path / ".heavylift/checkpoints").mkdir()
    part = in_the_making(tmp_path)
    part.with_name(f"{part.name}.checkpoints").rename(tmp_path / ".heavylift/checkpoints" / part.name)
    part.rename(tmp_path / "model.gguf.part")
    again = part_of(tmp_path, content, number=2)
    again.open(ignore)
    assert again.hashed == BLOCK_BYTES
    assert not (tmp_path / "model.gguf.part").exists()


def test_a_link_in_the_place_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part = interrupted(tmp_path, b"x", 0)
    place = in_the_making(tmp_path)
    place.unlink()
    place.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link") as refused:
        part.open(ignore)
    assert refused.value.filename == str(place)
    assert victim.read_bytes() == b"precious"


def test_another_name_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part = interrupted(tmp_path, b"x", 0)
    place = in_the_making(tmp_path)
    place.unlink()
    place.hardlink_to(victim)
    part.open(ignore)
    part.write(0, b"x")
    assert victim.read_bytes() == b"precious"


def test_a_write_that_was_stuck_goes_no_further_once_the_lease_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may hold a write for minutes, long after the run was told to stop."""
    stuck, let_go, given_back = threading.Event(), threading.Event(), threading.Event()
    write_to_disk = os.pwrite
    errors: list[Exception] = []

    def require() -> None:
        if given_back.is_set():
            raise StagerError("the lease is given back")

    def write_one_byte(descriptor: int, view: memoryview, offset: int) -> int:
        stuck.set()
        let_go.wait(30)
        return write_to_disk(descriptor, view[:1], offset)

    def write() -> None:
        try:
            part.write(0, b"four")
        except StagerError as error:
            errors.append(error)

    tree = Tree(tmp_path, require)
    parts = Parts(tree, 1)
    parts.prepare(None)
    part = Part(tree, parts, file_of(b"four"))
    part.open(ignore)
    monkeypatch.setattr("os.pwrite", write_one_byte)
    stream = threading.Thread(target=write)
    stream.start()
    assert stuck.wait(30)
    assert not part.stop_writing(), "the byte may still come"
    given_back.set()
    let_go.set()
    stream.join()
    assert [str(error) for error in errors] == ["the lease is given back"]
    assert in_the_making(tmp_path).read_bytes() == b"f"
    assert part.stop_writing()
    with pytest.raises(Stopped):
        part.write(1, b"our")


def test_after_a_failed_fsync_nothing_is_kept(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is told only once: what it covered must not be taken for written by the next run."""
    part = part_of(tmp_path, content)
    part.open(ignore)
    part.write(0, content[:BLOCK_BYTES])

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            part.flush()
    again = part_of(tmp_path, content)
    again.open(ignore)
    assert again.hashed == 0


def test_another_name_that_was_planted_during_the_run_is_not_written_through(tmp_path: Path, content: bytes) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    interrupted(tmp_path, content, 0)
    place = in_the_making(tmp_path)
    part = part_of(tmp_path, content, number=2)
    (place.parent.parent / "2").mkdir(exist_ok=True)
    (place.parent.parent / "2" / place.name).hardlink_to(victim)
    part.open(ignore)
    part.write(0, content)
    assert victim.read_bytes() == b"precious"
    assert part.problem() is None


def test_another_name_of_the_checkpoints_is_not_written_through(tmp_path: Path, content: bytes) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part = part_of(tmp_path, content)
    part.open(ignore)
    part.write(0, content[:BLOCK_BYTES])
    notes = in_the_making(tmp_path).with_suffix(".checkpoints")
    notes.unlink()
    notes.hardlink_to(victim)
    part.write(BLOCK_BYTES, content[BLOCK_BYTES : 2 * BLOCK_BYTES])
    assert victim.read_bytes() == b"precious"


def test_a_complete_file_with_another_name_is_replaced_by_a_copy(tmp_path: Path, content: bytes) -> None:
    """Another program could change it through that name after the stager verified it."""
    other = tmp_path / "other"
    other.write_bytes(content)
    part = part_of(tmp_path, content)
    part.path.hardlink_to(other)
    assert part.bytes_on_disk == 0, "the copy needs room"
    assert part.is_complete(ignore)
    assert part.path.read_bytes() == other.read_bytes() == content
    assert not part.path.samefile(other)
    assert part.finished.inode == part.path.stat().st_ino


def test_without_room_for_a_copy_a_file_with_another_name_is_fetched(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.write_bytes(content)
    part = part_of(tmp_path, content)
    part.path.hardlink_to(other)
    monkeypatch.setattr("stager.parts.free_bytes", lambda _: 0)
    assert not part.is_complete(ignore)
    assert not part.path.exists()
    assert other.read_bytes() == content
