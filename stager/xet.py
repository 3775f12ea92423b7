"""Fetches whole files by the hub's own client, which speaks Xet's protocol where a repository is stored so: an option.

What comes is verified like any file that somebody else brought; what is wrong or missing comes by ranges afterwards. A
file that was not ended is begun anew by the next run, and memory and connections are the client's own affair. The
protocol itself is untested here, where no server speaks it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from stager.ending import STOPPED
from stager.environment import hub_endpoint
from stager.errors import Stopped
from stager.listing import PART_SUFFIX, Listing, RemoteFile
from stager.verify import OWN_DIRECTORY
from stager.volume import make_directory


def fetch_whole_files(
    directory: Path,
    listing: Listing,
    *,
    say: Callable[[str], None],
    require_lease: Callable[[], None],
    ending: threading.Event,
) -> None:
    """Bring the files of `listing` of which `directory` has nothing yet; ends at the first that the client refuses.

    Raises `Stopped` when `ending` is set, and `StagerError` when the lease is lost.
    """
    disable_progress_bars()
    workshop = directory / OWN_DIRECTORY / "xet"
    for file in listing.files:
        target = directory / file.path
        if target.exists() or target.with_name(target.name + PART_SUFFIX).exists():
            continue
        download = _Download(listing, file, workshop)
        download.start()
        while download.is_alive():
            if ending.wait(0.1):
                raise Stopped(STOPPED)
        if download.refusal:
            say(f"{file.path}: not by the hub's client ({download.refusal}); going on by ranges")
            break
        require_lease()
        make_directory(target.parent)
        download.path.replace(target)
        say(f"{file.path}: {file.size:,} bytes by the hub's client, to be verified")
    shutil.rmtree(workshop, ignore_errors=True)


class _Download(threading.Thread):
    """One file, in a thread that need not be waited for: the client cannot be told to stop."""

    def __init__(self, listing: Listing, file: RemoteFile, workshop: Path) -> None:
        super().__init__(name="xet", daemon=True)
        self.path = workshop / file.path
        self.refusal = ""
        self._listing, self._file, self._workshop = listing, file, workshop

    def run(self) -> None:
        """Ends with the file in place, or with the client's refusal."""
        repository, commit = self._listing.repository, self._listing.commit
        try:
            hf_hub_download(
                repository, self._file.path, revision=commit, local_dir=self._workshop, endpoint=hub_endpoint()
            )
        except Exception as error:  # of three libraries; whatever it is, ranges are tried next
            self.refusal = " ".join(f"{type(error).__name__}: {error}".split())
