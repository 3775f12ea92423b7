"""Which file or block a stream is given next."""

import time
from pathlib import Path

from stager.jobs import LEAST_BLOCK_BYTES, Job, Jobs, State
from stager.listing import RemoteFile
from stager.part import BLOCK_BYTES, Part
from stager.parts import Parts
from stager.tree import Tree

MIB = 1024 * 1024
GIB = 1024 * MIB


def jobs_of(*sizes: int) -> Jobs:
    tree = Tree(Path("/"))
    files = [RemoteFile(f"file-{number}", size) for number, size in enumerate(sizes)]
    return Jobs(Part(tree, Parts(tree, 1), file) for file in files)


def begin(jobs: Jobs) -> Job:
    job = jobs.take_waiting(lambda _: True)
    assert job is not None
    jobs.set(job, State.FETCHING)
    return job


def test_files_are_begun_in_order_and_counted_until_they_end() -> None:
    jobs = jobs_of(3, 2)
    first, second = begin(jobs), begin(jobs)
    assert [first.file.path, second.file.path] == ["file-0", "file-1"]
    assert jobs.take_waiting(lambda _: True) is None
    assert jobs.begun == 2
    jobs.set(first, State.FAILED)
    jobs.set(first, State.FAILED)
    jobs.set(first, State.DONE)
    assert (jobs.begun, first.state, jobs.all_ended) == (1, State.FAILED, False)
    jobs.set(second, State.DONE)
    assert jobs.all_ended


def test_a_file_that_cannot_be_had_yet_holds_up_nobody() -> None:
    jobs = jobs_of(*[1] * 200)
    late = {f"file-{number}" for number in range(150)}
    taken: set[str] = set()
    while len(taken) < 50:
        job = jobs.take_waiting(lambda file: file.path not in late)
        if job:
            taken.add(job.file.path)
    assert not taken & late
    assert jobs.take_waiting(lambda file: file.path not in late) is None


def test_one_file_alone_is_cut_finely_enough_for_all_streams() -> None:
    jobs = jobs_of(GIB)
    begin(jobs)
    blocks = [jobs.take_block(64) for _ in range(64)]
    assert all(block is not None for block in blocks)
    assert {end - start for _, start, end in filter(None, blocks)} == {LEAST_BLOCK_BYTES}


def test_many_bytes_are_cut_coarsely_and_every_byte_is_given_once() -> None:
    jobs = jobs_of(2 * GIB + 5, 700 * MIB)
    files = [begin(jobs), begin(jobs)]
    given: dict[str, int] = {}
    lengths = []
    while (block := jobs.take_block(8)) is not None:
        job, start, end = block
        assert start == given.get(job.file.path, 0)
        given[job.file.path] = end
        lengths.append(end - start)
        job.streams = 0
        job.part._hashed = end
    assert given == {job.file.path: job.file.size for job in files}
    assert lengths[0] == BLOCK_BYTES
    assert LEAST_BLOCK_BYTES in lengths


def test_streams_do_not_run_far_ahead_of_the_hash() -> None:
    jobs = jobs_of(100 * GIB)
    begin(jobs)
    given = 0
    while (block := jobs.take_block(4)) is not None:
        given += block[2] - block[1]
        block[0].streams = 1
    assert given <= 4 * BLOCK_BYTES


def test_20_000_files_are_given_out_in_a_second_of_processor_time() -> None:
    jobs = jobs_of(*[1] * 20_000)
    began = time.process_time()
    while not jobs.all_ended:
        jobs.set(begin(jobs), State.DONE)
        jobs.take_block(16)
    assert time.process_time() - began < 1
