"""Whether a lab is said to run: from its first moment on, and not after its last."""

import subprocess
import sys
from pathlib import Path

from lab.site import PORTS, Site


def test_a_lab_runs_from_the_moment_that_its_process_is_started(tmp_path: Path) -> None:
    """The kernel shows no words of a process that just starts: seen for one in seven, so it is tried often."""
    for _ in range(40):
        with subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE) as process:
            site = Site(tmp_path, tmp_path, None, PORTS, process.pid)
            assert site.running
            process.kill()
            assert process.wait() != 0
        assert not site.running


def test_another_process_with_the_same_number_is_no_lab(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not Site(tmp_path, tmp_path, None, PORTS, process.pid).running
        process.kill()
