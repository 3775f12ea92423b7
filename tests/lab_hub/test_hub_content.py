"""Ranges: each slice of a content equals the slice of the whole, for all kinds of content."""

import hashlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hub.answers.ranges import NotSatisfiableError, requested_range
from lab.hub.client import HubClient
from lab.hub.stored.altered_content import FlippedContent, ResizedContent
from lab.hub.stored.content import PIECE, Content, DiskContent, GeneratedContent, TextContent, whole
from lab.hub.stored.digests import Digests

from .conftest import Sample
from .plain_http import fetch, located

SIZE = 2 * PIECE + 12_345


def joined(content: Content, start: int, stop: int) -> bytes:
    pieces = list(content.pieces(start, stop))
    assert all(0 < len(piece) <= PIECE for piece in pieces)
    return b"".join(pieces)


@given(st.integers(0, SIZE), st.integers(0, SIZE))
def test_slices_of_generated_bytes_fit_together(one: int, other: int) -> None:
    content = GeneratedContent(7, SIZE)
    start, stop = sorted((one, other))
    everything = joined(content, 0, SIZE)
    assert len(everything) == SIZE
    assert joined(content, start, stop) == everything[start:stop]


def test_generated_bytes_depend_on_the_seed_and_do_not_repeat() -> None:
    everything = joined(GeneratedContent(7, SIZE), 0, SIZE)
    assert everything[:PIECE] != everything[PIECE : 2 * PIECE]
    assert everything != joined(GeneratedContent(8, SIZE), 0, SIZE)
    assert everything == joined(GeneratedContent(7, SIZE), 0, SIZE)
    assert everything[:PIECE] == joined(GeneratedContent(7, 10 * SIZE), 0, PIECE), "the size does not change the bytes"


def test_half_a_terabyte_is_read_at_its_end_as_fast_as_at_its_start() -> None:
    content = GeneratedContent(7, 595 * 10**9)
    began = time.process_time()
    assert len(joined(content, content.size - 1000, content.size)) == 1000
    assert time.process_time() - began < 0.5


def test_generating_is_faster_than_any_disk_here() -> None:
    began = time.process_time()
    for _ in whole(GeneratedContent(7, 1 << 30)):
        pass
    assert (1 << 30) / (time.process_time() - began) > 1e9, "expected over a gigabyte per second of processor time"


@given(st.binary(max_size=300), st.integers(-400, 400), st.integers(0, 700), st.integers(0, 700))
def test_a_resized_content_is_cut_or_padded_with_zeros(text: bytes, by: int, one: int, other: int) -> None:
    original = TextContent(text.hex())
    expected = text.hex().encode()[: max(original.size + by, 0)].ljust(original.size + by, b"\0")
    content = ResizedContent(original, by)
    start, stop = sorted((min(one, content.size), min(other, content.size)))
    assert content.size == len(expected)
    assert joined(content, start, stop) == expected[start:stop]


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_a_flipped_content_differs_in_one_byte(offset: int, one: int, other: int) -> None:
    text = "abcdefghij" * 10
    expected = bytearray(text.encode())
    expected[offset] ^= 0xFF
    start, stop = sorted((one, other))
    assert joined(FlippedContent(TextContent(text), offset), start, stop) == expected[start:stop]


def test_a_hash_is_computed_once_and_kept(tmp_path: Path, sample: Sample) -> None:
    assert Digests(tmp_path).sha256(DiskContent(sample.path)) == sample.sha256
    (kept,) = tmp_path.iterdir()
    kept.write_text("what was kept")
    assert Digests(tmp_path).sha256(DiskContent(sample.path)) == "what was kept", "expected the kept hash to be used"


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    file = tmp_path / "file"
    digests = Digests(tmp_path / "state")
    for content in (b"one", b"four"):
        file.write_bytes(content)
        assert digests.sha256(DiskContent(file)) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-1000", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("bytes=19-10", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
        ("bytes=-", None),
        ("", None),
    ],
)
def test_ranges_are_read_as_the_standard_says(header: str, expected: tuple[int, int] | None) -> None:
    assert requested_range({"Range": header}, size=100, etag='"e"') == expected


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_behind_the_end_cannot_be_satisfied(header: str) -> None:
    with pytest.raises(NotSatisfiableError):
        requested_range({"Range": header}, size=100, etag='"e"')


def test_ranges_over_http_are_slices_of_the_file(hub: HubClient, sample: Sample) -> None:
    url = located(f"{hub.url}/acme/real/resolve/main/tiny.gguf")
    size = len(sample.content)
    for first, last in ((0, 0), (0, 999), (PIECE - 1, PIECE), (PIECE + 5, 2 * PIECE + 7), (size - 1, size - 1)):
        answer = fetch(url, headers={"Range": f"bytes={first}-{last}"})
        assert answer.status == 206
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{size}"
        assert answer.body == sample.content[first : last + 1]
    behind = fetch(url, headers={"Range": f"bytes={size}-"})
    assert behind.status == 416
    assert behind.headers["Content-Range"] == f"bytes */{size}"


def test_a_range_of_another_version_gives_the_whole_file(hub: HubClient, sample: Sample) -> None:
    url = located(f"{hub.url}/acme/real/resolve/main/tiny.gguf")
    etag = fetch(url, method="HEAD").headers["ETag"]
    assert fetch(url, headers={"Range": "bytes=1-2", "If-Range": etag}).body == sample.content[1:3]
    whole_file = fetch(url, headers={"Range": "bytes=1-2", "If-Range": '"another"'})
    assert whole_file.status == 200
    assert whole_file.body == sample.content
