"""The environment that has an engine: made once in the cache directory, outside the clone.

The engine's wheel without its compiled extensions, PyTorch with the CUDA libraries that it links (they are 3 GB of the
6 and not used, but `import torch` needs them), and the light ones of the engine's dependencies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.oracle.judges import Judge
from tests.oracle.wheel import download_wheel

_COMPILED = (".so",)
_SHORTEST_HASH = 12


def cache_directory(judge: Judge) -> Path:
    """Where the environment of an engine's requirements is, or will be."""
    digest = hashlib.sha256(judge.requirements.read_bytes() + sys.version.encode()).hexdigest()[:_SHORTEST_HASH]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "heavylift" / f"oracle-{digest}"


def make_environment(judge: Judge) -> Path:
    """The environment's Python, made first if it is not there: about five minutes and 6 GB."""
    directory = cache_directory(judge)
    if (directory / ".ready").exists():
        return directory / "bin" / "python"
    print(f"making {directory}: about five minutes, 6 GB", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    pip = [str(directory / "bin" / "pip"), "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([*pip, "install", "--requirement", str(judge.requirements)], check=True)
    with tempfile.TemporaryDirectory(dir=directory) as downloads:
        wheel = download_wheel(judge.project, judge.release, Path(downloads))
        _unpack(wheel, next((directory / "lib").glob("python*/site-packages")))
    (directory / ".ready").touch()
    return directory / "bin" / "python"


def _unpack(wheel: Path, target: Path) -> None:
    """Unpacks a wheel but for its compiled extensions."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(_COMPILED):
                archive.extract(member, target)
