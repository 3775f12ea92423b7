"""How a run shows how far it is: a bar for a person at a terminal, whole lines for a log."""

import io
import os
import pty
import select
import time

import pytest

from stager.progress import Progress, duration


def test_the_last_line_has_bytes_seconds_rate_and_the_share_that_was_not_fetched_again() -> None:
    log = io.StringIO()
    with Progress(log) as progress:
        progress.total = 4_000_000
        progress.add_reused(1_000_000)
        progress.add_fetched(3_000_000)
        time.sleep(0.05)
        progress.say(progress.summary(2))
    line = log.getvalue()
    assert "staged 2 files, 4,000,000 bytes in 0." in line
    assert "MB/s fetched, 25% re-used" in line


def test_a_log_gets_whole_lines_with_the_time_and_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stager.progress.LINE_SECONDS", 0.05)
    log = io.StringIO()
    with Progress(log) as progress:
        progress.total = 2_000_000_000
        progress.add_fetched(500_000_000)
        time.sleep(0.12)
    lines = log.getvalue().splitlines()
    assert lines
    assert lines[0].startswith(time.strftime("%H:", time.gmtime()))
    assert "Z 0.5 of 2.0 GB (25.0%), " in lines[0]
    assert " left" in lines[0]
    assert "\r" not in log.getvalue()
    assert "\033" not in log.getvalue()


def test_a_source_that_gives_nothing_is_seen_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stager.progress.LINE_SECONDS", 0.02)
    log = io.StringIO()
    with Progress(log) as progress:
        progress.total = 1000
        time.sleep(0.05)
    assert "0 MB/s, no bytes are coming" in log.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_where_there_is_nothing_to_measure_by_no_progress_is_shown(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("stager.progress.LINE_SECONDS", 0.02)
    monkeypatch.setattr("stager.progress.BAR_SECONDS", 0.02)
    log = io.StringIO()
    monkeypatch.setattr(log, "isatty", lambda: terminal)
    with Progress(log):
        time.sleep(0.1)
    assert log.getvalue().strip("\r\033[K") == ""


def test_a_terminal_gets_a_bar_that_rewrites_its_line() -> None:
    person, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as output:
        with Progress(output) as progress:
            progress.total = 1_000_000
            progress.add_fetched(500_000)
            time.sleep(0.5)
            progress.say("a file is done")
        shown = ""
        while select.select([person], [], [], 0.5)[0]:
            shown += os.read(person, 100_000).decode()
    os.close(person)
    assert "\r\033[K███████████████░░░░░░░░░░░░░░░ 0.5 of 1.0 MB (50.0%)" in shown
    assert "\r\033[Ka file is done" in shown
    assert shown.endswith("\r\033[K")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (392, "6 min 32 s"), (7380, "2 h 3 min")])
def test_a_duration_reads_as_a_person_says_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text
