"""How many processes fetch, what each gets, and what a worker refuses before it writes."""

import threading
from pathlib import Path

import pytest

from stager import processes
from stager.errors import StagerError, Unanswered
from stager.lease import Lease
from stager.listing import Listing, RemoteFile
from stager.processes import process_count, shares, usable_cores
from stager.progress import Progress
from stager.stage_request import StageRequest
from stager.streams import StreamCount
from stager.worker import Order, fetch
from stager.workers import Workers

GIB = 1024**3
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def files(*sizes: int) -> list[RemoteFile]:
    return [RemoteFile(f"model-{place:05}.safetensors", size, "0" * 64) for place, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("missing", "cores", "memory", "expected"),
    [
        ([6 * GIB] * 96, 192, 2 * GIB, 8),
        ([6 * GIB] * 96, 64, 2 * GIB, 8),
        ([6 * GIB] * 96, 64, GIB, 4),
        ([6 * GIB] * 96, 32, 2 * GIB, 4),
        ([6 * GIB] * 96, 8, 2 * GIB, 2),
        ([6 * GIB] * 96, 2, 2 * GIB, 2),
        ([6 * GIB] * 96, 1.5, 2 * GIB, 1),
        ([6 * GIB] * 3, 192, 2 * GIB, 3),
        ([600 * GIB], 192, 2 * GIB, 1),
        ([30_000] * 20_000, 192, 2 * GIB, 1),
        ([0] * 95 + [GIB - 1], 192, 2 * GIB, 1),
        ([], 192, 2 * GIB, 1),
        ([6 * GIB] * 96, 192, 1, 1),
    ],
    ids=[
        "192 cores",
        "64 cores",
        "1 GiB of memory",
        "32 cores",
        "8 cores",
        "2 cores",
        "less than 2 cores",
        "3 files",
        "1 file",
        "small files",
        "little is missing",
        "no file",
        "no memory",
    ],
)
def test_processes_follow_cores_memory_and_what_is_missing(
    missing: list[int], cores: float, memory: int, expected: int
) -> None:
    assert process_count(missing, cores=cores, memory=memory) == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [("max 100000\n", 4), ("150000 100000\n", 1.5), ("900000 100000\n", 4), ("", 4)]
)
def test_the_limit_of_the_container_counts(
    limit: str, expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    monkeypatch.setattr(processes, "_CPU_LIMIT", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert usable_cores() == expected


def test_shares_are_about_equal_and_keep_the_order() -> None:
    listed = files(9, 8, 7, 3, 3, 2, 1)
    assert [[file.size for file in share] for share in shares(listed, 3)] == [[9, 2], [8, 3], [7, 3, 1]]
    assert sorted(file.path for share in shares(listed, 3) for file in share) == [file.path for file in listed]


def test_more_shares_than_files_are_as_many_as_files() -> None:
    assert [len(share) for share in shares(files(5, 5), 8)] == [1, 1]


@pytest.fixture
def request_for(tmp_path: Path) -> StageRequest:
    return StageRequest(tmp_path / "tree", "acme/model", COMMIT, sources=[str(tmp_path / "share")])


def order_for(request: StageRequest, lease: Lease, *, inode: int | None = None) -> Order:
    status = request.directory.stat()
    listing = Listing("acme/model", COMMIT, COMMIT, tuple(files(5)))
    return Order(request, listing, lease.number, (status.st_dev, inode or status.st_ino), most_streams=1)


@pytest.fixture
def held(request_for: StageRequest) -> Lease:
    lease = Lease(request_for.directory, say=print, stop_event=threading.Event())
    return lease.__enter__()


def test_a_worker_writes_nothing_into_a_directory_that_took_the_place_of_the_leased_one(
    request_for: StageRequest, held: Lease
) -> None:
    order = order_for(request_for, held, inode=1)
    with pytest.raises(Unanswered, match="was replaced by another directory"):
        fetch(order, lambda: held.renewed_at, Progress(), StreamCount(fixed=1))


def test_a_worker_without_a_permit_of_the_last_seconds_writes_nothing(request_for: StageRequest, held: Lease) -> None:
    (request_for.directory / ".heavylift/parts/1").mkdir(parents=True)
    order = order_for(request_for, held)
    with pytest.raises(Unanswered, match="could not be renewed in time"):
        fetch(order, lambda: held.renewed_at - 51, Progress(), StreamCount(fixed=1))
    assert list((request_for.directory / ".heavylift/parts/1").iterdir()) == []


def new_workers(request: StageRequest, held: Lease, stop_event: threading.Event) -> Workers:
    listing = Listing("acme/model", COMMIT, COMMIT, tuple(files(5, 5)))
    streams, progress = StreamCount(fixed=2), Progress()
    return Workers(request, listing, held, processes=2, streams=streams, progress=progress, stop_event=stop_event)


def test_a_worker_that_says_nothing_for_long_ends_the_run(
    request_for: StageRequest, held: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start alone takes longer than the time that it has here."""
    monkeypatch.setattr("stager.workers.SILENCE_SECONDS", 0.01)
    workers = new_workers(request_for, held, threading.Event())
    with pytest.raises(Unanswered, match="no sign of life"):
        workers.run()
    assert workers.stop_writing()


def test_machines_that_allow_no_further_process_are_named(
    request_for: StageRequest, held: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.context.SpawnProcess.start", refuse)
    workers = new_workers(request_for, held, threading.Event())
    with pytest.raises(StagerError, match="cannot be started: Resource temporarily unavailable; try --processes 1"):
        workers.run()
    assert workers.stop_writing()
