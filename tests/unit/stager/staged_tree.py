"""A small staged directory, made by hand from the contract and not by the stager."""

import datetime
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 17 * 1024 * 1024


def write_staged_tree(directory: Path, contents: Mapping[str, bytes]) -> Path:
    """Write the files and a manifest of them, as it would be after staging."""
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    manifest = {
        "version": 2,
        "repository": "acme/tiny",
        "revision": "main",
        "commit": COMMIT,
        "files": [
            {
                "path": name,
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "mtime_ns": (directory / name).stat().st_mtime_ns,
                "ctime_ns": (directory / name).stat().st_ctime_ns,
                "inode": (directory / name).stat().st_ino,
            }
            for name, content in contents.items()
        ],
        "total_bytes": sum(map(len, contents.values())),
        "source": "hub",
        "completed_at": datetime.datetime.now(datetime.UTC).isoformat(),
    }
    own = directory / ".heavylift"
    own.mkdir()
    (own / "manifest.json").write_text(json.dumps(manifest))
    time.sleep(0.05)
    return directory


def edit_manifest(directory: Path, **changes: object) -> None:
    """Overwrite some keys of the manifest."""
    path = directory / ".heavylift" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
