"""The controller's manifest is that of the source which the lab builds."""

import pytest

from lab.build.leader_worker_set import MANIFEST, manifest_text


@pytest.mark.lab
def test_the_manifest_is_what_the_pinned_source_says() -> None:
    assert MANIFEST.read_text() == manifest_text(), "run `python -m lab.build.leader_worker_set`"
