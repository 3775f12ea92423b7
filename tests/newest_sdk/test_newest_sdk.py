"""Every stack registers the same with the newest pulumi-kubernetes as with the pinned one: nothing rests on its age."""

import os
import subprocess
import sys
from pathlib import Path

from lab.build import wheels
from lab.build.cache import Piece, ensure
from lab.site import CHECKOUT

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
NEWEST = Piece(
    "newest-sdk",
    (REQUIREMENTS, sys.version),
    lambda workspace, _progress: wheels.install(REQUIREMENTS, workspace, "--no-deps"),
    "about 30 s",
)


def test_the_reviewed_stacks_register_the_same_with_the_newest_sdk() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ensure(NEWEST)), "PYTHONDONTWRITEBYTECODE": "1"}
    wanted = "import pulumi_kubernetes, importlib.metadata as m; print(m.version('pulumi-kubernetes'))"
    version = subprocess.run(
        [sys.executable, "-c", wanted], env=environment, capture_output=True, text=True, check=True
    )
    assert f"pulumi-kubernetes=={version.stdout.strip()}" in REQUIREMENTS.read_text()
    golden = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/golden"],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert golden.returncode == 0, golden.stdout[-3000:]
