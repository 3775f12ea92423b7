"""A connection is slow only beside others that are fast now."""

from stager.best_rate import PERIOD_SECONDS, STRAGGLER_RATIO, BestRate
from stager.transfer import LAP_SECONDS

FAST, SLOW = 100e6, 100e6 / STRAGGLER_RATIO - 1


def test_a_connection_far_below_the_best_is_a_straggler() -> None:
    rates = BestRate()
    assert not rates.is_straggler(1.0, now=0)
    rates.note(FAST, now=0)
    assert rates.is_straggler(SLOW, now=1)
    assert not rates.is_straggler(FAST / STRAGGLER_RATIO, now=1)
    assert rates.is_straggler(SLOW, now=PERIOD_SECONDS), "a fast block that ended a moment ago counts"


def test_what_was_fast_counts_when_a_connection_is_judged_whenever_it_began() -> None:
    for now in range(60):
        rates = BestRate()
        rates.note(FAST, now=now)
        assert rates.is_straggler(SLOW, now=now + 2 * LAP_SECONDS)


def test_the_rate_of_a_source_that_died_is_forgotten() -> None:
    """Else the connections of a slow source would be replaced every 10 s for ever."""
    rates = BestRate()
    rates.note(FAST, now=5)
    later = 5 + 2 * PERIOD_SECONDS
    rates.note(SLOW, now=later)
    assert not rates.is_straggler(SLOW, now=later)


def test_a_slow_connection_does_not_lower_the_best() -> None:
    rates = BestRate()
    for now in range(60):
        rates.note(FAST, now=now)
        rates.note(SLOW, now=now)
        assert rates.is_straggler(SLOW, now=now)
