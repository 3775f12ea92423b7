"""Many small files: `python -m bench.stager_many_files`.

Stages 20,000 files of a few bytes from a directory and from the lab's hub, once as files that the hub keeps itself and
once as files in LFS, which it redirects to its storage. Shows the stager's CPU time, the elapsed time and the requests.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.hub.client import HubClient, running_hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SMALL, LFS = "acme/small", "acme/lfs"
GOAL_SECONDS = 30
FOLDERS = 20


def repositories(count: int) -> dict[str, Any]:
    """Returns the hub's two repositories."""
    names = [f"part-{number % FOLDERS:02d}/adapter-{number:05d}" for number in range(count)]
    small = {f"{name}.json": {"text": f'{{"rank": {number}}}\n'} for number, name in enumerate(names)}
    lfs = {f"{name}.bin": {"generate": {"seed": number, "size": 100}} for number, name in enumerate(names)}
    revision = {"commit": COMMIT, "branches": ["main"]}
    return {name: {"revisions": [{**revision, "files": files}]} for name, files in ((SMALL, small), (LFS, lfs))}


def write_share(place: Path, files: dict[str, dict[str, str]]) -> Path:
    """Writes the files into a directory and returns their lock."""
    entries = []
    for path, file in sorted(files.items()):
        content = file["text"].encode()
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
        entries.append({"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    lock = place.with_name("lock.json")
    names = {"version": 1, "repository": SMALL, "revision": COMMIT, "commit": COMMIT}
    lock.write_text(json.dumps({**names, "files": entries, "total_bytes": sum(entry["size"] for entry in entries)}))
    return lock


def row(name: str, hub: HubClient, repository: str, directory: Path, options: Sequence[str | Path]) -> str:
    """Stages the repository and returns a row of the table."""
    hub.clear_requests()
    command = ["stage", "--directory", directory, "--repository", repository, "--revision", COMMIT, *options]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "stager", *map(str, command)],
        cwd=Path(__file__).parents[1],
        env={**environment, "HF_ENDPOINT": hub.url},
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{name}: the stager ended with {os.waitstatus_to_exitcode(status)}")
    requests = sum(path.requests for path in hub.requests().values())
    cpu = usage.ru_utime + usage.ru_stime
    return f"| {name} | {cpu:.1f} | {usage.ru_utime:.1f} | {time.monotonic() - began:.0f} | {requests:,} |"


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.stager_many_files", description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    options = parser.parse_args()
    table = repositories(options.files)
    with tempfile.TemporaryDirectory() as name, running_hub({"repositories": table}) as hub:
        directory = Path(name)
        share = directory / "share"
        lock = write_share(share, table[SMALL]["revisions"][0]["files"])
        print(f"{options.files:,} files; the goal for 20,000 is {GOAL_SECONDS} s of CPU time\n", flush=True)
        print("| source | CPU, s | of it user, s | elapsed, s | requests |\n|---|---|---|---|---|", flush=True)
        from_share: list[str | Path] = ["--lock", lock, "--source", f"{share}/{{path}}"]
        print(row("directory", hub, SMALL, directory / "1", from_share), flush=True)
        print(row("hub", hub, SMALL, directory / "2", []), flush=True)
        print(row("hub, LFS", hub, LFS, directory / "3", []), flush=True)


if __name__ == "__main__":
    main()
