"""What prune removes, and what it never touches."""

import threading
from pathlib import Path

import pytest

from stager.errors import StagerError
from stager.prune import prune
from tests.unit.stager.staged_tree import edit_manifest, write_staged_tree

OLD, MIDDLE, NEW = "0" * 16, "1" * 16, "2" * 16


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    for digest, year in ((OLD, 2024), (MIDDLE, 2025), (NEW, 2026)):
        write_staged_tree(tmp_path / digest, {"config.json": b"{}", "nested/model.gguf": b"w"})
        edit_manifest(tmp_path / digest, completed_at=f"{year}-01-01T00:00:00+00:00")
    return tmp_path


def left(mount: Path) -> list[str]:
    return sorted(path.name for path in mount.iterdir())


def run(mount: Path, *in_use: str, keep_newest: int = 0, dry_run: bool = False) -> list[str]:
    said: list[str] = []
    removed = prune(
        mount, in_use=in_use, keep_newest=keep_newest, dry_run=dry_run, say=said.append, ending=threading.Event()
    )
    assert len(said) >= len(removed)
    return [path.name for path in removed]


def test_the_newest_are_kept(mount: Path) -> None:
    assert run(mount, keep_newest=2) == [OLD]
    assert left(mount) == [MIDDLE, NEW]


def test_what_a_server_uses_is_kept_however_old(mount: Path) -> None:
    assert run(mount, OLD, keep_newest=1) == [MIDDLE]
    assert left(mount) == [OLD, NEW]


def test_a_dry_run_removes_nothing(mount: Path) -> None:
    assert run(mount, dry_run=True) == [NEW, MIDDLE, OLD]
    assert left(mount) == [OLD, MIDDLE, NEW]


def test_what_the_stager_did_not_make_is_left_alone(mount: Path) -> None:
    (mount / "lost+found").mkdir()
    (mount / ("a" * 16)).mkdir()
    (mount / "data.bin").touch()
    (mount / ("b" * 16)).symlink_to(mount / OLD)
    run(mount)
    assert left(mount) == ["a" * 16, "b" * 16, "data.bin", "lost+found"]


def test_what_never_completed_goes_first_and_is_not_counted_among_the_newest(mount: Path) -> None:
    (mount / NEW / ".heavylift/manifest.json").unlink()
    assert run(mount, keep_newest=1) == [OLD, NEW]
    assert left(mount) == [MIDDLE]


def test_a_link_inside_is_removed_and_not_followed(mount: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (mount / OLD / "link").symlink_to(precious)
    run(mount, keep_newest=2)
    assert (precious / "file").exists()


def test_a_directory_that_is_named_wrongly_is_refused_before_anything_is_removed(mount: Path) -> None:
    with pytest.raises(StagerError, match="expected the 16 hexadecimal digits"):
        run(mount, "main")
    assert left(mount) == [OLD, MIDDLE, NEW]
