"""The stage pod's init container: installs the stager's hash-locked requirements where the image lacks them.

Runs alone in the pod (`python3 install_requirements.py TARGET`), beside `requirements.in` and
`requirements.txt`, with the standard library and the image's own pip. An image that has the
requirements already is left as it is and needs no network.
"""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

_HERE = Path(__file__).parent
_TERMINATION_LOG = Path("/dev/termination-log")
_MINIMUM_PYTHON = (3, 11)


def missing(requirements: str) -> list[str]:
    """The distributions named in the text of a `requirements.in` that this Python cannot find."""
    names = re.findall(r"^\s*([A-Za-z0-9][\w.-]*)", requirements, flags=re.MULTILINE)
    return [name for name in names if not _installed(name)]


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def install(target: Path) -> str | None:
    """Installs what is missing into `target`; returns what went wrong, in one line, or None."""
    if sys.version_info < _MINIMUM_PYTHON:
        return f"the stage image has Python {sys.version.split()[0]}: expected 3.11 or newer (heavylift:stage.image)"
    absent = missing((_HERE / "requirements.in").read_text())
    if not absent:
        return None
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--require-hashes", "--only-binary=:all:", "--target", str(target)]
    command += ["--requirement", str(_HERE / "requirements.txt")]
    print(f"installing {', '.join(absent)}", flush=True)
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(result.stderr)
    if result.returncode == 0:
        return None
    reason = result.stderr.strip().splitlines()[-1:] or [f"pip ended with status {result.returncode}"]
    return (
        f"cannot install {', '.join(absent)}: {reason[0]}; give an image that has them in heavylift:stage.image, or an "
        "index that the pod reaches as PIP_INDEX_URL in heavylift:stage.environment"
    )


if __name__ == "__main__":
    fault = install(Path(sys.argv[1]))
    if fault is not None:
        if _TERMINATION_LOG.exists():
            _TERMINATION_LOG.write_text(fault)
        sys.exit(fault)
