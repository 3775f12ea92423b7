"""Whatever a source sends is its own fault, told in one line, and the next source gives the file."""

import datetime
import os
import random
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from stager.listing import Listing, RemoteFile
from stager.ranges import Address, RangeReader
from stager.retry import RetryPolicy
from stager.source import Source, WebSource, sources
from stager.source_pool import SourcePool
from tests.unit.stager.raw_server import Answer, RawServer, Request, dripping, giving, saying, serving, sha256
from tests.unit.stager.staged_tree import COMMIT

CONTENT = random.Random(5).randbytes(100_000)
FILE = RemoteFile("model.gguf", len(CONTENT), sha256(CONTENT))
STALL_SECONDS = 0.5
ENOUGH_SECONDS = 20.0


@pytest.fixture
def good() -> Iterator[RawServer]:
    with serving(giving(CONTENT)) as server:
        yield server


@pytest.fixture
def said() -> list[str]:
    return []


def web(server: RawServer, name: str, **headers: str) -> Source:
    reader = RangeReader(streams=1, stall_seconds=STALL_SECONDS)
    return WebSource(name, lambda file: Address(f"{server.url}/{file.path}", headers), reader)


def fetched(said: list[str], *of: Source) -> bytes:
    """The file as it comes from the first of these sources that gives it; nothing else may be raised."""
    retries = RetryPolicy(waits=(0.01,) * 6, rest_seconds=60)
    source_pool = SourcePool(of, say=said.append, pause=lambda _: None, retries=retries)
    content = b"".join(source_pool.read(FILE, 0, FILE.size))
    assert not [line for line in said if "\n" in line]
    return content


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {first}", *headers, "", ""]).encode("latin-1")


DIGITS = "9" * 5000
HEADS = {
    "Retry-After that is no number to a person": head("503 x", "Retry-After: \xb2", "Content-Length: 0"),
    "Retry-After of many digits": head("503 x", f"Retry-After: {DIGITS}", "Content-Length: 0"),
    "dates of which one has no zone": head(
        "503 x",
        "Retry-After: Wed, 21 Oct 2026 07:28:00 -0000",
        "Date: Wed, 21 Oct 2026 07:27:59 GMT",
        "Content-Length: 0",
    ),
    "403 with a date without a zone": head("403 x", "Date: Wed, 21 Oct 2026 07:27:59 -0000", "Content-Length: 0"),
    "403 of a far year": head("403 x", "Date: Wed, 21 Oct 99999999999 07:27:59 GMT", "Content-Length: 0"),
    "a range of many digits": head("206 x", f"Content-Range: bytes {DIGITS}-1/2", "Content-Length: 0"),
    "a RateLimit of many digits": head("429 x", f'RateLimit: "api";r=0;t={DIGITS}', "Content-Length: 0"),
    "an error whose page is cut off": head("404 x", "Content-Length: 1000") + b"abc",
    "an error whose page has broken chunks": head("403 x", "Transfer-Encoding: chunked") + b"zz\r\nabc",
    "a redirect to a bad port": head("302 x", "Location: http://127.0.0.1:99999999/", "Content-Length: 0"),
    "a redirect to a file": head("302 x", "Location: file:///etc/passwd", "Content-Length: 0"),
    "a redirect to half an address": head("302 x", "Location: http://[::1/", "Content-Length: 0"),
    "a redirect to a name that is too long": head("302 x", f"Location: http://{'a' * 70}.com/", "Content-Length: 0"),
    "a redirect to nowhere": head("302 x", "Content-Length: 0"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "nothing": b"",
    "200 headers": head("200 x", *(f"a{number}: b" for number in range(200))),
    "a header without end": b"HTTP/1.1 200 x\r\nA: " + b"b" * 100_000,
}


@pytest.mark.parametrize("text", HEADS.values(), ids=HEADS)
def test_what_no_parser_expects_is_one_line_and_the_next_source_is_asked(
    text: bytes, good: RawServer, said: list[str]
) -> None:
    with serving(saying(text)) as bad:
        assert fetched(said, web(bad, "bad"), web(good, "good")) == CONTENT
    assert any(line.startswith("bad") for line in said)


def test_a_file_in_chunks_without_a_length_is_taken(said: list[str]) -> None:
    def answer(request: Request) -> None:
        start, end = request.range
        request.send(head("206 x", f"Content-Range: bytes {start}-{end - 1}/*", "Transfer-Encoding: chunked"))
        for place in range(start, end, 65536):
            piece = CONTENT[place : min(place + 65536, end)]
            request.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
        request.send(b"0\r\n\r\n")

    with serving(answer) as server:
        assert fetched(said, web(server, "web")) == CONTENT
    assert said == []


def slow_head(request: Request) -> None:
    """Headers that never end, a few bytes at a time, so that no time-out of a socket ever passes."""
    request.send(b"HTTP/1.1 206 x\r\nA: ")
    for _ in range(int(ENOUGH_SECONDS / 0.1)):
        request.send(b"b")
        request.wait(0.1)


def stalling_page(request: Request) -> None:
    request.send(head("404 x", "Content-Length: 1000") + b"abc")
    request.wait(ENOUGH_SECONDS)


@pytest.mark.parametrize(
    "answer", [dripping(CONTENT, 0.1), slow_head, stalling_page], ids=["the file", "its headers", "an error's page"]
)
def test_a_drip_of_bytes_holds_up_nobody(answer: Answer, good: RawServer, said: list[str]) -> None:
    with serving(answer) as bad:
        assert fetched(said, web(bad, "bad"), web(good, "good")) == CONTENT
    assert said


def test_whatever_a_source_raises_is_its_own_fault(good: RawServer, said: list[str]) -> None:
    class Broken:
        name = "broken"

        def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
            yield CONTENT[start : start + 10]
            raise KeyError(f"no\n{file.path}")

    assert fetched(said, Broken(), web(good, "good")) == CONTENT
    assert "broken: KeyError: 'no\\nmodel.gguf'" in said[0]


def test_a_source_that_wants_to_be_left_alone_is_not_waited_for_while_another_is_idle(
    good: RawServer, said: list[str]
) -> None:
    waits: list[float] = []
    busy = head("429 x", "Retry-After: 300", "Content-Length: 0")
    with serving(saying(busy)) as bad:
        source_pool = SourcePool([web(bad, "bad"), web(good, "good")], say=said.append, pause=waits.append)
        assert b"".join(source_pool.read(FILE, 0, FILE.size)) == CONTENT
        assert len(bad.heads) == 1
    assert max(waits) <= 0
    assert said == ["bad: model.gguf: HTTP 429; leaving it alone for 300 s"]


def test_a_pipe_on_a_share_is_not_waited_for(good: RawServer, said: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE.path)
    listing = Listing("acme/model", COMMIT, COMMIT, (FILE,))
    share = sources([f"{tmp_path}/{{path}}"], listing, RangeReader(streams=1, stall_seconds=1))
    assert fetched(said, *share, web(good, "good")) == CONTENT
    assert "is no regular file" in said[0]


@pytest.fixture
def tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ssl.SSLContext:
    """What a server needs that our client trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def redirecting_to(target: str) -> Answer:
    return saying(head("302 x", f"Location: {target}", "Content-Length: 0"))


def test_a_token_does_not_go_from_https_to_http(tls: ssl.SSLContext, good: RawServer, said: list[str]) -> None:
    with serving(giving(CONTENT)) as plain:
        with serving(redirecting_to(f"{plain.url}/model.gguf"), tls) as hub:
            assert fetched(said, web(hub, "hub", Authorization="Bearer secret"), web(good, "good")) == CONTENT
        assert plain.heads == []
    assert "redirects from https to http, which is not safe" in said[0]


@pytest.mark.parametrize("same", [True, False], ids=["the same server", "another port"])
def test_a_token_goes_to_its_own_scheme_host_and_port_only(said: list[str], same: bool) -> None:
    def answer(request: Request) -> None:
        if request.head.startswith("GET /model.gguf"):
            request.send(head("302 x", f"Location: {(hub if same else other).url}/there", "Content-Length: 0"))
        else:
            giving(CONTENT)(request)

    with serving(giving(CONTENT)) as other, serving(answer) as hub:
        assert fetched(said, web(hub, "hub", Authorization="Bearer secret")) == CONTENT
        assert ("secret" in (hub if same else other).heads[-1]) is same


def test_a_default_port_is_the_same_said_or_not() -> None:
    from stager.ranges import _origin

    assert _origin("https://hub/a") == _origin("https://HUB:443/b")
    assert _origin("https://hub/a") != _origin("http://hub:443/a")
    assert _origin("http://hub") == ("http", "hub", 80)


def test_a_date_of_any_zone_is_compared_in_one() -> None:
    from stager.ranges import _date

    expected = datetime.datetime(2026, 10, 21, 7, 28, tzinfo=datetime.UTC)
    assert _date("Wed, 21 Oct 2026 07:28:00 -0000") == expected
    assert _date("Wed, 21 Oct 2026 09:28:00 +0200") == expected
