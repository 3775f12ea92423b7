"""Optional: fetches whole files with the hub's own client, over Xet's protocol if the repository is stored so.

The stager verifies the files like all others, and fetches wrong or missing ones by ranges. The next run starts an
unfinished file again. The client decides its own memory and connections. The protocol is untested: no server was
available.
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
from stager.manifest import OWN_DIRECTORY
from stager.parts import Parts
from stager.stopping import STOPPED
from stager.tree import Tree

WORKSHOP = f"{OWN_DIRECTORY}/xet"


def fetch_whole_files(
    tree: Tree, listing: Listing, parts: Parts, *, say: Callable[[str], None], stop_event: threading.Event
) -> None:
    """Fetch the files of `listing` of which `tree` has nothing; ends at the first one that the client refuses.

    Raises `Stopped` if `stop_event` is set, and `StagerError` if the lease is lost.
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
    """One file, in a daemon thread: the client cannot be stopped."""

    def __init__(self, listing: Listing, file: RemoteFile, workshop: Path) -> None:
        super().__init__(name="xet", daemon=True)
        self.refusal = ""
        self._listing, self._file, self._workshop = listing, file, workshop

    def run(self) -> None:
        """Fetch the file, or keep the client's error."""
        repository, commit = self._listing.repository, self._listing.commit
        try:
            hf_hub_download(
                repository, self._file.path, revision=commit, local_dir=self._workshop, endpoint=hub_endpoint()
            )
        except Exception as error:  # from three libraries; ranges are next in any case
            self.refusal = " ".join(f"{type(error).__name__}: {error}".split())
