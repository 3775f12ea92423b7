"""Runs the stager from the archive beside this file: `python3 run_stager.py SUBCOMMAND ...`.

The archive is JSON, compressed with bzip2: the source text of each module of the package `stager`. No module is written
to a disk, so the container's file system can be read-only.
"""

import bz2
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

ARCHIVE = Path(__file__).with_name("stager.json.bz2")
_PACKAGE = "stager"


class ArchiveImporter(MetaPathFinder, ExecutionLoader):
    """Imports the modules of the package in `archive`. Tracebacks name their files and lines."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._texts: dict[str, str] = json.loads(bz2.decompress(archive.read_bytes()))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module of the package. None: the archive does not have it."""
        del path, target
        return spec_from_loader(fullname, self) if self._file(fullname) in self._texts else None

    def is_package(self, fullname: str) -> bool:
        """Whether `fullname` is the package itself."""
        return fullname == _PACKAGE

    def get_filename(self, fullname: str) -> str:
        """Returns the path that tracebacks name. There is no such file."""
        return str(self._archive.with_name(self._file(fullname)))

    def get_source(self, fullname: str) -> str:
        """Returns the source text of a module."""
        return self._texts[self._file(fullname)]

    def _file(self, fullname: str) -> str:
        return "__init__.py" if self.is_package(fullname) else fullname.removeprefix(f"{_PACKAGE}.") + ".py"


# A worker process of the stager imports this file under the second name.
if __name__ in ("__main__", "__mp_main__"):
    sys.meta_path.insert(0, ArchiveImporter(ARCHIVE))
if __name__ == "__main__":
    import_module(f"{_PACKAGE}.__main__").run()
