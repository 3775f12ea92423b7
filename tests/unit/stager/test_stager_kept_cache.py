"""The directory for what a server compiles: for its user alone, through no link, and removed only by its own stack."""

import errno
import os
import stat
from pathlib import Path

import pytest

from stager.errors import StagerError
from stager.kept_cache import make_cache, prune_caches
from stager.nofollow import LinkInTheWay

OLD, NEW = "0" * 16, "1" * 16
US, THEM = "heavylift/h200", "heavylift/b200"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def pruned(mount: Path, *, dry_run: bool = False) -> list[str]:
    said: list[str] = []
    prune_caches(mount, US, NEW, dry_run=dry_run, say=said.append)
    return said


def test_it_lies_beside_the_weights_and_only_its_user_enters(tmp_path: Path) -> None:
    made = make_cache(tmp_path, US, NEW, None)
    assert made == tmp_path / ".cache/heavylift/h200" / NEW
    assert (mode(made), made.stat().st_uid) == (0o700, os.geteuid())
    assert mode(made.parent) & 0o022 == 0, "others put nothing beside it"


def test_what_is_in_it_stays_and_a_wider_mode_is_narrowed(tmp_path: Path) -> None:
    made = make_cache(tmp_path, US, NEW, None)
    (made / "graph.so").write_bytes(b"compiled")
    made.chmod(0o777)
    assert make_cache(tmp_path, US, NEW, None) == made
    assert (mode(made), (made / "graph.so").read_bytes()) == (0o700, b"compiled")


@as_root
def test_root_gives_an_empty_directory_to_the_servers_user_once(tmp_path: Path) -> None:
    made = make_cache(tmp_path, US, NEW, 2000)
    assert (mode(made), made.stat().st_uid) == (0o700, 2000)
    (made / "graph.so").touch()
    assert make_cache(tmp_path, US, NEW, 2000) == made


@as_root
@pytest.mark.parametrize("stranger", [3000, 0])
def test_a_directory_that_another_user_filled_is_refused(tmp_path: Path, stranger: int) -> None:
    made = make_cache(tmp_path, US, NEW, stranger)
    (made / "planted.so").touch()
    with pytest.raises(StagerError, match=rf"belongs to user {stranger}, expected 2000; .* remove it"):
        make_cache(tmp_path, US, NEW, 2000)
    assert made.stat().st_uid == stranger


def test_a_link_in_its_place_leads_nowhere(tmp_path: Path) -> None:
    volume, elsewhere = tmp_path / "volume", tmp_path / "elsewhere"
    volume.mkdir()
    elsewhere.mkdir()
    (volume / ".cache").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"volume/\.cache'$") as refused:
        make_cache(volume, US, NEW, None)
    assert refused.value.errno == errno.ELOOP
    with pytest.raises(LinkInTheWay):
        pruned(volume)
    assert list(elsewhere.iterdir()) == []


def test_prune_removes_the_other_caches_of_its_stack_only(tmp_path: Path) -> None:
    kept = [make_cache(tmp_path, US, NEW, None), make_cache(tmp_path, THEM, OLD, None)]
    old = make_cache(tmp_path, US, OLD, None)
    (old / "deep").mkdir()
    (old / "deep/link").symlink_to(kept[1])
    (old.parent / "notes").mkdir()
    assert pruned(tmp_path, dry_run=True) == [f"would remove cache .cache/{US}/{OLD}"]
    assert old.is_dir()
    assert pruned(tmp_path) == [f"removing cache .cache/{US}/{OLD}"]
    assert not old.exists()
    assert all(path.is_dir() for path in (*kept, old.parent / "notes"))


def test_a_volume_without_caches_needs_no_pruning(tmp_path: Path) -> None:
    assert pruned(tmp_path) == []
