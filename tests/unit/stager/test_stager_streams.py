"""The number of streams follows what a line gives: simulated lines, without a clock."""

from collections.abc import Callable

import pytest

from stager.streams import FIRST_STREAMS, MOST_FOUND_STREAMS, StreamCount, memory_bytes, streams_in_memory

GIB = 1024**3
Line = Callable[[int], float]


def each(bytes_per_second: float, at_most: float) -> Line:
    """A line that carries so much for each stream, and so much in all."""
    return lambda streams: min(streams * bytes_per_second, at_most)


def settled(streams: StreamCount, line: Line, ticks: int = 40) -> int:
    """The number of streams after so many ticks on a line."""
    for _ in range(ticks):
        streams.tick(line(streams.allowed), all_busy=True)
    return streams.allowed


@pytest.mark.parametrize(
    ("line", "least", "most"),
    [
        (each(12.5e6, 10e9), MOST_FOUND_STREAMS, MOST_FOUND_STREAMS),
        (each(50e6, 1.25e9), 25, 64),
        (each(1e9, 1e9), FIRST_STREAMS, FIRST_STREAMS),
        (each(100e6, 250e6), FIRST_STREAMS, FIRST_STREAMS),
    ],
    ids=["long line", "10 Gbit/s", "one stream fills it", "3 fill it"],
)
def test_it_grows_while_the_rate_does_and_no_further(line: Line, least: int, most: int) -> None:
    streams = StreamCount(most=1000)
    settled(streams, line)
    assert least <= min(settled(streams, line, ticks=1) for _ in range(60)) <= most, "but for trials"


def test_it_doubles_at_each_tick_at_first() -> None:
    streams = StreamCount(most=1000)
    seen = [settled(streams, each(12.5e6, 10e9), ticks=1) for _ in range(4)]
    assert seen == [16, 32, 64, 128]


def test_a_line_that_becomes_wider_is_found_again() -> None:
    streams = StreamCount(most=1000)
    narrow = settled(streams, each(50e6, 0.4e9))
    assert settled(streams, each(50e6, 5e9), ticks=600) > 2 * narrow


def test_a_machine_that_was_busy_at_the_start_is_not_held_to_it() -> None:
    streams = StreamCount(most=1000)
    settled(streams, lambda _: 20e6, ticks=10)
    assert streams.allowed == FIRST_STREAMS
    assert settled(streams, each(12.5e6, 10e9), ticks=80) == MOST_FOUND_STREAMS, "within 24 s"


def test_trials_become_rare_where_they_bring_nothing() -> None:
    streams = StreamCount(most=1000)
    more = [settled(streams, each(1e9, 1e9), ticks=1) > FIRST_STREAMS for _ in range(2000)]
    assert sum(more[1000:]) < 0.06 * 1000


def test_a_trial_that_brings_nothing_is_taken_back() -> None:
    streams = StreamCount(most=1000)
    seen = {settled(streams, each(50e6, 0.4e9), ticks=1) for _ in range(600)}
    assert max(seen) <= 2 * FIRST_STREAMS
    assert settled(streams, each(50e6, 0.4e9), ticks=1) in (FIRST_STREAMS, FIRST_STREAMS * 2)


def test_a_rate_without_enough_work_says_nothing() -> None:
    streams = StreamCount(most=1000)
    for rate in (1e6, 2e6, 4e6, 8e6):
        streams.tick(rate, all_busy=False)
    assert streams.allowed == FIRST_STREAMS


def test_what_a_person_asked_for_is_kept() -> None:
    assert settled(StreamCount(fixed=3), each(1e6, 1e12)) == 3


@pytest.mark.parametrize(("memory", "streams"), [(2 * GIB, 128), (512 * 1024**2, 32), (1, 1)])
def test_memory_bounds_it(memory: int, streams: int) -> None:
    assert streams_in_memory(memory) == streams
    assert StreamCount(most=streams_in_memory(memory)).most == min(streams, MOST_FOUND_STREAMS)


def test_this_machine_has_memory() -> None:
    assert 256 * 1024**2 < memory_bytes() < 2**50
