"""What prune removes, and what it never touches."""

import os
import threading
from pathlib import Path

import pytest

from stager.errors import StagerError, WrongUsage
from stager.prune import Pruning, prune
from stager.tree import Tree
from stager.users import mark, unmark, users
from tests.unit.stager.staged_tree import edit_manifest, write_staged_tree

OLD, MIDDLE, NEW = "0" * 16, "1" * 16, "2" * 16
US, THEM = "heavylift/h200", "heavylift/b200"


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    for digest, year in ((OLD, 2024), (MIDDLE, 2025), (NEW, 2026)):
        write_staged_tree(tmp_path / digest, {"config.json": b"{}", "nested/model.gguf": b"w"})
        edit_manifest(tmp_path / digest, completed_at=f"{year}-01-01T00:00:00+00:00")
    return tmp_path


def left(mount: Path) -> list[str]:
    return sorted(path.name for path in mount.iterdir())


def run(mount: Path, *in_use: str, keep_newest: int = 0, user: str | None = None, dry_run: bool = False) -> list[str]:
    """Prune; returns the names of what was removed."""
    pruning = Pruning(mount, keep_newest, in_use, user=user, dry_run=dry_run)
    return [path.name for path in prune(pruning, say=lambda _: None, stop_event=threading.Event())]


def said(mount: Path, user: str | None = None) -> list[str]:
    """What a dry run says."""
    lines: list[str] = []
    prune(Pruning(mount, 1, user=user, dry_run=True), say=lines.append, stop_event=threading.Event())
    return lines


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
    with pytest.raises(WrongUsage, match="expected the 16 hexadecimal digits"):
        run(mount, "main")
    assert left(mount) == [OLD, MIDDLE, NEW]


def test_nothing_staged_is_said_and_no_error(tmp_path: Path) -> None:
    assert said(tmp_path) == [f"{tmp_path}: no weights are staged here"]
    assert said(tmp_path, US) == [f"{tmp_path}: no weights are staged here for {US}"]


def test_each_line_says_for_whom_a_directory_was_staged(mount: Path) -> None:
    mark(Tree(mount / OLD), US)
    mark(Tree(mount / OLD), THEM)
    assert said(mount)[0].startswith(f"keeping {NEW}: acme/tiny at main, ")
    assert said(mount)[-1].endswith(f" bytes, staged for {THEM}, {US}")
    assert "staged for" not in said(mount)[0]


def marked(mount: Path, user: str, *digests: str) -> None:
    """Mark directories for a user, in this order, a second apart."""
    for age, digest in enumerate(reversed(digests)):
        mark(Tree(mount / digest), user)
        path = mount / digest / ".heavylift/users" / user.replace("/", "%2F")
        os.utime(path, (path.stat().st_mtime - age, path.stat().st_mtime - age))


def test_for_a_user_only_what_it_staged_is_looked_at_newest_mark_first(mount: Path) -> None:
    marked(mount, US, MIDDLE, OLD)
    assert run(mount, OLD, keep_newest=1, user=US) == [MIDDLE]
    assert left(mount) == [OLD, NEW], "the one without a mark was staged by hand"


def test_what_another_user_needs_too_only_loses_our_mark(mount: Path) -> None:
    marked(mount, US, OLD, NEW)
    mark(Tree(mount / OLD), THEM)
    assert run(mount, NEW, keep_newest=1, user=US) == []
    assert left(mount) == [OLD, MIDDLE, NEW]
    assert users(Tree(mount / OLD)) == [THEM]
    assert run(mount, keep_newest=0, user=THEM) == [OLD]


def test_what_was_served_before_a_rollback_is_the_older_one(mount: Path) -> None:
    marked(mount, US, OLD, NEW)
    marked(mount, US, NEW, OLD)
    assert run(mount, OLD, keep_newest=1, user=US) == [NEW]


def test_a_pruning_that_comes_late_keeps_what_was_staged_last_beside_what_it_was_told(mount: Path) -> None:
    """It was told of NEW, but meanwhile a rollback to OLD is served."""
    marked(mount, US, NEW, OLD)
    assert run(mount, NEW, keep_newest=1, user=US) == []


def test_what_is_served_counts_among_the_newest(mount: Path) -> None:
    marked(mount, US, OLD, MIDDLE, NEW)
    assert run(mount, NEW, keep_newest=2, user=US) == [OLD]


def test_a_damaged_directory_is_not_counted_among_the_newest(mount: Path) -> None:
    marked(mount, US, OLD, MIDDLE, NEW)
    (mount / MIDDLE / ".heavylift/manifest.json").write_text("{")
    assert run(mount, NEW, keep_newest=2, user=US) == [MIDDLE]


def test_a_disk_that_fails_costs_nobody_anything(mount: Path) -> None:
    marked(mount, US, OLD, MIDDLE, NEW)
    (mount / MIDDLE / ".heavylift/manifest.json").unlink()
    (mount / MIDDLE / ".heavylift/manifest.json").mkdir()
    with pytest.raises(StagerError, match="Is a directory"):
        run(mount, NEW, keep_newest=2, user=US)
    assert left(mount) == [OLD, MIDDLE, NEW]


def test_a_dry_run_for_a_user_changes_nothing(mount: Path) -> None:
    marked(mount, US, OLD, MIDDLE, NEW)
    mark(Tree(mount / MIDDLE), THEM)
    assert run(mount, NEW, keep_newest=1, user=US, dry_run=True) == [OLD]
    assert users(Tree(mount / MIDDLE)) == [THEM, US]
    assert left(mount) == [OLD, MIDDLE, NEW]


def test_what_a_run_that_was_ended_left_half_removed_is_removed(mount: Path) -> None:
    (mount / OLD).rename(mount / f"{OLD}.removed.0a1b2c3d")
    (mount / "notes.removed").mkdir()
    assert run(mount, keep_newest=2) == []
    assert left(mount) == [MIDDLE, NEW, "notes.removed"]


def test_a_mark_has_a_safe_name_and_no_other_file_is_one(mount: Path) -> None:
    mark(Tree(mount / OLD), US)
    (mount / OLD / ".heavylift/users/.nfs0001").touch()
    assert sorted(path.name for path in (mount / OLD / ".heavylift/users").iterdir()) == [
        ".nfs0001",
        "heavylift%2Fh200",
    ]
    assert users(Tree(mount / OLD)) == [US]
    unmark(Tree(mount / OLD), US)
    assert users(Tree(mount / OLD)) == []
