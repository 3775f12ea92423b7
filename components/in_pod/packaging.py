"""The programs that ConfigMaps carry into pods: the stager as an archive, the verifier as plain files.

An archive gives room: a ConfigMap holds at most 1 MiB, and the stack's state holds it twice. bzip2 gives the same bytes
on every machine. Deflate (zip, gzip) depends on the zlib of the Python that runs Pulumi, so that a preview on another
machine would show a change.
"""

from base64 import b64encode
from bz2 import compress
from json import dumps
from pathlib import Path

from components.in_pod import run_stager

_HERE = Path(__file__).parent
_STAGER = _HERE.parents[1] / "stager"

RUN_STAGER = Path(run_stager.__file__).name
INSTALLER = "install_requirements.py"

VERIFIER = "verify.py"
_VERIFIER_MODULES = (VERIFIER, "__init__.py", "manifest.py", "nofollow.py", "order.py", "tree_check.py")
"""The modules that `verify.py` imports, directly or through another one."""


def stager_texts() -> dict[str, str]:
    """Returns the plain files of the stager's ConfigMap: file name to text, sorted."""
    files = [*_STAGER.glob("requirements.*"), _HERE / RUN_STAGER, _HERE / INSTALLER]
    return {file.name: file.read_text() for file in sorted(files, key=lambda file: file.name)}


def stager_archive() -> dict[str, str]:
    """Returns the `binary_data` of the stager's ConfigMap: all modules of the package."""
    modules = {file.name: file.read_text() for file in sorted(_STAGER.glob("*.py"))}
    return {run_stager.ARCHIVE.name: b64encode(compress(dumps(modules).encode())).decode()}


def verifier_texts() -> dict[str, str]:
    """Returns the files of the verifier: file name to text, sorted."""
    return {name: (_STAGER / name).read_text() for name in sorted(_VERIFIER_MODULES)}
