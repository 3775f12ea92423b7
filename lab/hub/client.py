"""A hub for tests: runs it as a process, sets faults and reads its request log.

with running_hub({"repositories": {...}}) as hub:
    hub.fault("status", path="*/resolve/*", status=503, count=2)
    ...  # HF_ENDPOINT=hub.url
    assert hub.requests()["/storage/acme/tiny/<commit>/model.safetensors"].bytes == size
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

_LISTENS = re.compile(r"hub listens on (\S+), storage on (\S+)")


@dataclass(frozen=True)
class Requests:
    """The requests for one path."""

    requests: int
    """Number of requests."""
    bytes: int
    """File bytes sent."""
    answers: dict[str, int]
    """Number of responses by method and status, such as `GET 206`."""


class HubClient:
    """The control API of a running hub."""

    def __init__(self, url: str, storage_url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        """The hub's URL, for `HF_ENDPOINT`."""
        self.storage_url = storage_url
        """The URL of the storage for files in LFS."""
        self.process = process
        """The hub's process."""
        self._http = httpx2.Client(base_url=url, timeout=30, trust_env=False)

    @property
    def index_url(self) -> str:
        """The URL of the package index for pip."""
        return f"{self.url}/simple/"

    def fault(self, kind: str, **settings: Any) -> None:
        """Adds a fault. `lab.hub.faults` has the kinds and their settings."""
        answer = self._http.post("/lab/faults", json={"kind": kind, **settings})
        if answer.is_error:
            raise ValueError(f"the hub refuses the fault {kind} {settings}: {answer.text}")

    def faults(self) -> list[dict[str, Any]]:
        """Returns all faults, each with the number of affected requests, `struck`."""
        told: list[dict[str, Any]] = self._http.get("/lab/faults").raise_for_status().json()
        return told

    def clear_faults(self) -> None:
        """Removes all faults."""
        self._http.delete("/lab/faults").raise_for_status()

    def requests(self) -> dict[str, Requests]:
        """Returns the requests by path since the start or the last `clear_requests`."""
        told = self._http.get("/lab/requests").raise_for_status().json()
        return {path: Requests(**log) for path, log in told.items()}

    def bytes_sent(self) -> int:
        """Returns the file bytes sent, over all paths."""
        return sum(log.bytes for log in self.requests().values())

    def clear_requests(self) -> None:
        """Resets the counters of requests and bytes."""
        self._http.delete("/lab/requests").raise_for_status()

    def close(self) -> None:
        """Closes the connection to the hub."""
        self._http.close()


@contextmanager
def running_hub(
    table: Mapping[str, Any] | Path,
    *,
    wheels: Path | None = None,
    state_dir: Path | None = None,
    url_lifetime: float | None = None,
    host: str = "127.0.0.1",
) -> Iterator[HubClient]:
    """Runs a hub that serves `table` (content or file) on free ports until the block ends.

    Raises:
        RuntimeError: the hub did not start. The message is the hub's error.
    """
    with tempfile.TemporaryDirectory() as directory:
        if not isinstance(table, Path):
            file = Path(directory, "repositories.json")
            file.write_text(json.dumps(table, default=str))
            table = file
        options = {
            "--repositories": table,
            "--wheels": wheels,
            "--state-dir": state_dir,
            "--url-lifetime": url_lifetime,
        }
        given = [part for option, value in options.items() if value is not None for part in (option, str(value))]
        said = Path(directory, "said")
        with (
            said.open("w") as output,
            subprocess.Popen(
                [sys.executable, "-m", "lab.hub", "--host", host, *given],
                cwd=Path(__file__).parents[2],
                stdout=output,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                with closing(_started(process, said)) as client:
                    yield client
            finally:
                process.terminate()


def _started(process: subprocess.Popen[bytes], said: Path) -> HubClient:
    while (match := _LISTENS.search(said.read_text())) is None:
        if process.poll() is not None:
            raise RuntimeError(f"the hub did not start: {said.read_text().strip()}")
        time.sleep(0.02)
    return HubClient(match.group(1), match.group(2), process)
