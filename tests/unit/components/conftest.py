"""What the tests of single components share: no server of theirs is waited for."""

import pytest

from components.rollout import server_watch
from tests.program import serves_at_once


@pytest.fixture(autouse=True)
def served_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait itself is tested in `test_server_watch.py`."""
    monkeypatch.setattr(server_watch, "until_it_serves", serves_at_once)
