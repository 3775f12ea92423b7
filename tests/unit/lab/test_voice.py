"""What the lab says while it keeps a person waiting."""

import time

import pytest

from lab import voice
from lab.voice import reminding


def test_a_long_wait_is_spoken_of_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(voice, "REMINDER_SECONDS", 0.01)
    with reminding("starting"):
        time.sleep(0.2)
    said = capsys.readouterr().err.splitlines()
    assert len(said) >= 2
    assert set(said) == {"lab: still starting, for 0 s"}


def test_nothing_is_said_of_a_short_wait_or_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(voice, "REMINDER_SECONDS", 0.2)
    with pytest.raises(RuntimeError), reminding("starting"):
        raise RuntimeError
    time.sleep(0.3)
    assert capsys.readouterr().err == ""
