"""Which files are chosen, and which choices are refused before anything is fetched."""

import hashlib

import pytest

from stager.errors import StagerError
from stager.listing import Listing, RemoteFile, is_safe, select

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def listing(*paths: str) -> Listing:
    files = tuple(RemoteFile(path, size, "0" * 64) for size, path in enumerate(paths, 1))
    return Listing("acme/model", "main", COMMIT, files)


def chosen(of: Listing, *include: str) -> list[str]:
    return [file.path for file in select(of, include).files]


def test_without_patterns_all_files_are_chosen_largest_first() -> None:
    assert chosen(listing("a", "b", "c")) == ["c", "b", "a"]


def test_a_star_also_matches_folders_and_a_trailing_slash_means_all_below() -> None:
    files = listing("UD-Q2/m-00001-of-00002.gguf", "UD-Q2/m-00002-of-00002.gguf", "README.md", "Q8/m.gguf")
    assert chosen(files, "UD-Q2/") == chosen(files, "*UD-Q2*")
    assert len(chosen(files, "UD-Q2/")) == 2


def test_every_pattern_that_matches_nothing_is_named() -> None:
    with pytest.raises(StagerError, match=r"matches nothing\*, nor/; it has 1 files: a"):
        select(listing("a"), ["a", "nothing*", "nor/"])


def test_one_shard_of_thirteen_is_refused_with_the_pattern_that_would_do() -> None:
    shards = [f"UD/K2-{number:05d}-of-00013.gguf" for number in range(1, 14)]
    with pytest.raises(StagerError) as refused:
        select(listing(*shards), [shards[0]])
    assert "set of 13 shards, missing 2, 3, 4, 5, 6 and 7 more" in str(refused.value)
    assert "include UD/K2-*-of-00013.gguf" in str(refused.value)
    assert len(chosen(listing(*shards), "UD/K2-*-of-00013.gguf")) == 13


def test_shards_that_the_repository_itself_lacks_are_said_to_be() -> None:
    with pytest.raises(StagerError, match="missing 2: the repository itself lacks them"):
        select(listing("m-00001-of-000003.safetensors", "m-00003-of-000003.safetensors"), [])


def test_numbers_of_different_width_are_one_set() -> None:
    """As moonshotai/Kimi-K2.5 names its 64 files: five digits of six."""
    assert len(chosen(listing("model-00001-of-000002.safetensors", "model-00002-of-000002.safetensors"))) == 2


def test_two_sets_with_gaps_are_refused_together() -> None:
    with pytest.raises(StagerError) as refused:
        select(listing("a-1-of-2.gguf", "b-2-of-2.gguf"), [])
    assert "a-*-of-2.gguf" in str(refused.value)
    assert "b-*-of-2.gguf" in str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../up",
        "a/../../b",
        "a//b",
        "./a",
        "a/.",
        ".heavylift/manifest.json",
        "x.part",
        "a\nb",
        "a\0",
    ],
)
def test_a_path_that_leaves_the_directory_or_clashes_is_refused(path: str) -> None:
    assert not is_safe(path)
    with pytest.raises(StagerError, match="would leave the staged directory"):
        select(listing("fine", path), [])


@pytest.mark.parametrize("path", ["a", ".gitattributes", "a/b/c.safetensors", "ünïcode.txt", "a b"])
def test_an_ordinary_path_is_accepted(path: str) -> None:
    assert is_safe(path)


def test_a_set_of_400_million_shards_is_counted_and_not_listed() -> None:
    with pytest.raises(StagerError, match="missing 2, 3, 4, 5, 6 and 399999994 more: the repository itself lacks them"):
        select(listing("m-1-of-400000000.gguf"), [])
    assert chosen(listing(f"m-1-of-{'9' * 200}.gguf")), "no such number is meant"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([RemoteFile("a", 1, "0" * 64), RemoteFile("a", 2, "1" * 64)], "a: is listed 2 times"),
        ([RemoteFile("a", 1, "0" * 64), RemoteFile("a/b", 1, "0" * 64)], "a: is listed as a file and as a folder"),
        ([RemoteFile("a", None, "0" * 64)], "a: size is None, expected bytes"),  # type: ignore[arg-type]
        ([RemoteFile("a", -1, "0" * 64)], "a: size is -1"),
        ([RemoteFile("a", True, "0" * 64)], "a: size is True"),
        ([RemoteFile("a", "2", "0" * 64)], "a: size is '2'"),  # type: ignore[arg-type]
        ([RemoteFile("a", 1)], "a: has no usable hash"),
        ([RemoteFile("a", 1, "xyz")], "a: has no usable hash"),
        ([RemoteFile("a", 0, "0" * 64)], "a: is listed with 0 bytes, but its hash"),
        ([RemoteFile("a", 0, None, "0" * 40)], "a: is listed with 0 bytes, but its hash"),
        ([RemoteFile("a" * 256, 1, "0" * 64)], "is no file name"),
        ([RemoteFile("\ud800", 1, "0" * 64)], "is no file name"),
    ],
)
def test_a_list_of_files_that_cannot_be_staged_is_refused_whoever_lists_it(files: list[RemoteFile], said: str) -> None:
    with pytest.raises(StagerError) as refused:
        select(Listing("acme/model", "main", COMMIT, tuple(files)), [])
    assert said in str(refused.value)


def test_empty_files_are_staged_with_the_hashes_of_nothing() -> None:
    """The second as `git hash-object /dev/null` says it."""
    nothing = hashlib.sha256(b"").hexdigest(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    files = (RemoteFile("a", 0, nothing[0]), RemoteFile("b", 0, None, nothing[1]))
    assert len(select(Listing("acme/model", "main", COMMIT, files), []).files) == 2
