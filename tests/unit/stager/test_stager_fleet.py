"""Which node of a fleet fetches what: the same for all who work it out, balanced, and spread when a node is gone."""

import random
import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stager.command_line import membership, parser
from stager.errors import WrongUsage
from stager.fleet import Fleet, identity, orders
from stager.listing import Listing, RemoteFile
from stager.peer import Peer
from stager.ranges import RangeReader
from stager.serve import FileServer, Shelf
from stager.stage_request import Membership

GB = 10**9
KIMI = [RemoteFile(f"model-{number:05d}-of-000064.safetensors", 9_290_000_000) for number in range(64)]


def files_of(sizes: list[int]) -> list[RemoteFile]:
    return [RemoteFile(f"file-{number}", size, "0" * 64) for number, size in enumerate(sizes)]


@given(sizes=st.lists(st.integers(0, 10 * GB), min_size=1, max_size=80), members=st.integers(2, 20))
@settings(max_examples=50, deadline=None)
def test_everybody_finds_the_same_and_nobody_has_much_more(sizes: list[int], members: int) -> None:
    files = files_of(sizes)
    found = orders(files, members)
    shuffled = random.Random(1).sample(files, len(files))
    assert orders(shuffled, members) == found
    assert all(sorted(order) == list(range(members)) for order in found.values())
    share = Counter[int]()
    for file in files:
        share[found[file.path][0]] += file.size
    assert max(share.values()) <= sum(sizes) / members + max(sizes), "no more than a file above the mean"


@pytest.mark.parametrize("members", [2, 4, 8, 16, 64])
def test_equal_shards_are_shared_out_equally(members: int) -> None:
    owners = Counter(order[0] for order in orders(KIMI, members).values())
    assert set(owners.values()) == {64 // members}


def test_the_files_of_a_node_that_is_gone_are_spread_over_all_others() -> None:
    found = orders(KIMI, 5)
    successors = Counter(order[1] for order in found.values() if order[0] == 2)
    assert successors == Counter({0: 3, 1: 3, 3: 4, 4: 3})


def test_weights_of_other_content_are_another_fleet() -> None:
    one, other = RemoteFile("a", 1, "0" * 64), RemoteFile("a", 1, "1" * 64)
    listing = Listing("acme/model", "main", "0" * 40, (one,))
    assert identity(listing) == identity(Listing("acme/model", "other", "1" * 40, (one,)))
    assert identity(listing) != identity(Listing("acme/model", "main", "0" * 40, (other,)))


def fleet_of(count: int, me: int) -> Fleet:
    """A fleet of which nobody was asked yet; timeout_seconds ends when a test says so."""
    members = tuple((f"node-{place}", f"http://127.0.0.1:{place + 1}") for place in range(count))
    membership = Membership(members, f"node-{me}", 0, "s" * 16, timeout_seconds=1000)
    listing = Listing("acme/model", "main", "0" * 40, tuple(KIMI))
    reader = RangeReader(streams=1, stall_seconds=1, inside=True)
    peers = [None if place == me else Peer(place, membership, listing, "id", reader=reader) for place in range(count)]
    stop_event = threading.Event()
    return Fleet(membership, listing, peers, is_held_up=lambda: False, say=lambda _: None, stop_event=stop_event)


def test_every_file_is_for_exactly_one_node_and_moves_when_that_one_is_banished() -> None:
    fleets = [fleet_of(4, me) for me in range(4)]
    for file in KIMI:
        assert [fleet.is_mine(file) for fleet in fleets].count(True) == 1
    for fleet in fleets:
        for peer in fleet.others:
            peer.banished = peer.place == 0
    for file in KIMI:
        assert [fleet.is_mine(file) for fleet in fleets[1:]].count(True) == 1


def test_the_secret_is_not_shown() -> None:
    assert "ssss" not in repr(Membership((("a", "http://a:1"),), "a", 1, "s" * 16))


def test_a_node_that_was_started_again_is_asked_for_all_that_it_has() -> None:
    files = tuple(files_of([1, 1, 1, 1]))
    listing = Listing("acme/model", "main", "0" * 40, files)

    def serve(port: int, *verified: int) -> FileServer:
        shelf = Shelf("id", files, lambda _: -1, SECRET)
        for number in verified:
            shelf.add(files[number])
        return FileServer(shelf, port)

    with serve(0, 0, 1) as server:
        members = (("me", "http://127.0.0.1:1"), ("other", f"http://127.0.0.1:{server.port}"))
        membership = Membership(members, "me", 1, SECRET)
        reader = RangeReader(streams=1, stall_seconds=1, inside=True)
        peer = Peer(1, membership, listing, "id", reader=reader)
        assert peer.look() == ["file-0", "file-1"]
        assert peer.look() == []
    peer._pool.clear()  # as the end of the process does
    with serve(server.port, 2, 3, 0):
        assert peer.look() == []
        assert sorted(peer.look()) == ["file-0", "file-2", "file-3"]
    assert peer.look() == []


PEERS = ["--peer=a=http://h:1", "--peer=b=http://h:2"]
STAGE = ["stage", "--directory", "/t", "--repository", "acme/model", "--revision", "main"]
SECRET = "a-secret-of-the-fleet"


def told(options: list[str], secret: str, monkeypatch: pytest.MonkeyPatch) -> Membership | None:
    monkeypatch.setenv("STAGER_FLEET_SECRET", secret)
    return membership(parser().parse_args([*STAGE, *options]))


def test_a_fleet_is_named_by_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told([*PEERS, "--node=b", "--lock=l"], SECRET, monkeypatch)
    assert found == Membership((("a", "http://h:1"), ("b", "http://h:2")), "b", 2, SECRET)
    assert found.place == 1
    assert told([], SECRET, monkeypatch) is None


@pytest.mark.parametrize(
    ("options", "secret", "message"),
    [
        (["--peer=a=http://h:1"], SECRET, "--peer: expected two different nodes or more, got a"),
        (["--peer=a=http://h:1", "--peer=a=http://h:2", "--node=a"], SECRET, "two different nodes or more, got a, a"),
        (["--node=a"], SECRET, "two different nodes or more, got none"),
        ([*PEERS, "--lock=l"], SECRET, "--node None: expected one of the peers: a, b"),
        ([*PEERS, "--node=c", "--lock=l"], SECRET, "--node c: expected one of the peers: a, b"),
        ([*PEERS, "--node=b", "--lock=l"], "short", "STAGER_FLEET_SECRET: expected the fleet's secret"),
        ([*PEERS, "--node=b", "--lock=l"], "with a space in it", "STAGER_FLEET_SECRET: expected the fleet's secret"),
        ([*PEERS, "--node=b"], SECRET, "--peer without --lock: expected a lock"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(
    options: list[str], secret: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongUsage) as refused:
        told(options, secret, monkeypatch)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "peer", ["a", "a=", "=http://h:1", "a=ftp://h:1", "a=http://h", "a=https://h:1", "a=http://h:1/p", "a=http://h:0"]
)
def test_what_is_no_peer_is_refused(peer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([*STAGE, f"--peer={peer}"])
    assert "expected NAME=http://HOST:PORT" in capsys.readouterr().err
