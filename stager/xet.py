"""Fetches whole files by the hub's own client, which speaks Xet's protocol where a repository is stored so: an option.

What comes is verified like any file that somebody else brought; what is wrong or missing comes by ranges afterwards. A
file that was not ended is begun anew by the next run, and memory and connections are the client's own affair. The
protocol itself is untested here, where no server speaks it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from stager.environment import hub_endpoint
from stager.errors import Stopped
from stager.listing import Listing, RemoteFile
from stager.parts import Parts
from stager.stopping import STOPPED
from stager.tree import Tree
from stager.verify import OWN_DIRECTORY

WORKSHOP = f"{OWN_DIRECTORY}/xet"


def fetch_whole_files(
    tree: Tree, listing: Listing, parts: Parts, *, say: Callable[[str], None], stop_event: threading.Event
) -> None:
    """Bring the files of `listing` of which `tree` has nothing yet; ends at the first that the client refuses.

    Raises `Stopped` when `stop_event` is set, and `StagerError` when the lease is lost.
    """
    disable_progress_bars()
    tree.remove_folder(WORKSHOP)
    tree.make_folder(WORKSHOP)
    for file in listing.files:
        if tree.status(file.path) or parts.bytes_on_disk(file):
            continue
        download = _Download(listing, file, tree.directory / WORKSHOP)
        download.start()
        while download.is_alive():
            if stop_event.wait(0.1):
                raise Stopped(STOPPED)
        if download.refusal:
            say(f"{file.path}: not by the hub's client ({download.refusal}); going on by ranges")
            break
        tree.make_folder(file.path.rpartition("/")[0])
        tree.rename(f"{WORKSHOP}/{file.path}", file.path)
        say(f"{file.path}: {file.size:,} bytes by the hub's client, to be verified")
    tree.remove_folder(WORKSHOP)


class _Download(threading.Thread):
    """One file, in a thread that need not be waited for: the client cannot be told to stop."""

    def __init__(self, listing: Listing, file: RemoteFile, workshop: Path) -> None:
        super().__init__(name="xet", daemon=True)
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
