"""What the tests of single components share: nothing in a cluster is waited for."""

import pytest

from tests.program import await_nothing


@pytest.fixture(autouse=True)
def done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits themselves are tested in `test_stage_watch.py` and `test_server_watch.py`."""
    await_nothing(monkeypatch)
