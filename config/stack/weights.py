"""The identity of the staged weights, and the lock file that pins them.

The digest names the directory on the volume and the stage Job. It covers the content of the weights only: another
stager, image or source does not change it, and does not restart the server.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from config.errors import StackError
from config.stack.sections import StackConfig, StagedRepository
from stager import lockfile
from stager.digest import DIGEST_DIGITS
from stager.errors import StagerError


@dataclass(frozen=True)
class WeightsLock:
    """The parts of a weights lock file that a stack uses."""

    text: str
    """The file's content, which travels to the stager as it is."""
    repository: str
    commit: str
    """Full commit that the lock pins."""
    files: Sequence[str]
    """Paths within the repository, sorted."""
    total_bytes: int

    @property
    def sha256(self) -> str:
        """SHA-256 of the file, in hex."""
        return lock_sha256(self.text)


def lock_sha256(text: str) -> str:
    """SHA-256 of a lock file with that content, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def lock_of(stack: StackConfig, program: Path = Path()) -> WeightsLock | None:
    """The lock file of a stack's model. None: the stack names none. Raises StackError, as `read_lock`."""
    return read_lock(program / stack.stage.lock, stack.model) if stack.stage.lock else None


def draft_lock_of(stack: StackConfig, program: Path = Path()) -> WeightsLock | None:
    """The lock file of a stack's draft model. None: the stack names none. Raises StackError, as `read_lock`."""
    draft, lock = stack.model.draft, stack.stage.draft_lock
    return read_lock(program / lock, draft, "stage.draft_lock") if draft and lock else None


def read_lock(path: Path, model: StagedRepository, key: str = "stage.lock") -> WeightsLock:
    """The lock file at `path`, which must pin that model; `key`: of the stack file, for messages.

    Raises StackError when it cannot be read, is no lock file, or pins another repository or revision.
    """
    try:
        text = lockfile.read_text(path)
        listing = lockfile.parse_lock(text, str(path))
    except StagerError as fault:
        raise StackError([f"heavylift:{key}: {fault}"]) from None
    lock = WeightsLock(
        text=text,
        repository=listing.repository,
        commit=listing.commit,
        files=tuple(sorted(file.path for file in listing.files)),
        total_bytes=listing.total_bytes,
    )
    if (lock.repository, lock.commit) != (model.repository, model.revision):
        raise StackError(
            [
                f"heavylift:{key}: '{path}' pins {lock.repository} at {lock.commit}: expected {model.repository} at "
                f"{model.revision}; write a new lock, or correct heavylift:model"
            ]
        )
    return lock


def weights_digest(model: StagedRepository, lock_sha256: str | None) -> str:
    """The first hex digits of the SHA-256 of the canonical JSON of what is staged, by a lock file or without one."""
    identity = {
        "repository": model.repository,
        "revision": model.revision,
        "include": sorted(set(model.include)),
        "lock_sha256": lock_sha256,
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_DIGITS]
