"""A directory of small files with its lock: a source that needs no server."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from .conftest import COMMIT


class Share:
    """The files `contents` below `place`, and their lock. `options`: the options of `stage` for both."""

    def __init__(self, place: Path, contents: Mapping[str, bytes]) -> None:
        self.contents = contents
        self.lock = place / "lock.json"
        self.files = [
            {"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in sorted(contents.items())
        ]
        for name, content in contents.items():
            (place / "share" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "share" / name).write_bytes(content)
        head = {"version": 1, "repository": "acme/model", "revision": COMMIT, "commit": COMMIT}
        lock = {**head, "files": self.files, "total_bytes": sum(map(len, contents.values()))}
        self.lock.write_text(json.dumps(lock))
        self.options: tuple[str | Path, ...] = ("--lock", self.lock, "--source", f"{place}/share/{{path}}")

    def is_in(self, tree: Path) -> bool:
        """Returns whether all files of `tree` have the right bytes."""
        return all((tree / name).read_bytes() == content for name, content in self.contents.items())
