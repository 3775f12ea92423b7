"""What is staged: the identity of the weights, and the lock file that may pin them file by file.

The digest names the directory on the volume and the Job that fills it. It covers what the bytes are, never how they get
there: another stager, image or source leaves it as it is, and with it the server.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, Strict, ValidationError

from config.errors import StackError
from config.stack.sections import Model

_FAULTS_SHOWN = 5


class _LockedFile(BaseModel):
    path: str
    size: Annotated[int, Strict(), Field(ge=0, lt=2**63)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _LockFile(BaseModel):
    """A lock file as `python -m stager lock` writes it."""

    version: Literal[1]
    repository: str
    commit: str
    files: Annotated[Sequence[_LockedFile], Field(min_length=1)]
    total_bytes: Annotated[int, Strict(), Field(ge=0)]


@dataclass(frozen=True)
class WeightsLock:
    """A weights lock file, as far as a stack needs it."""

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
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_lock(path: Path, model: Model) -> WeightsLock:
    """The lock file at `path`, which must pin the stack's own model.

    Raises StackError when it cannot be read, is no lock file, or pins another repository or revision.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = _LockFile.model_validate_json(text)
    except OSError as fault:
        raise StackError([f"heavylift:stage.lock: '{path}' cannot be read ({fault.strerror})"]) from None
    except UnicodeDecodeError:
        raise StackError([f"heavylift:stage.lock: '{path}' is not a weights lock file: not a text in UTF-8"]) from None
    except ValidationError as faults:
        raise StackError([f"heavylift:stage.lock: '{path}' is not a weights lock file: {_said(faults)}"]) from None
    lock = WeightsLock(
        text=text,
        repository=content.repository,
        commit=content.commit,
        files=tuple(sorted(file.path for file in content.files)),
        total_bytes=content.total_bytes,
    )
    if (lock.repository, lock.commit) != (model.repository, model.revision):
        raise StackError(
            [
                f"heavylift:stage.lock: '{path}' pins {lock.repository} at {lock.commit}: expected "
                f"{model.repository} at {model.revision}; write a new lock, or correct heavylift:model"
            ]
        )
    return lock


def _said(faults: ValidationError) -> str:
    """The first faults, each with its place in the file."""
    shown = faults.errors(include_url=False)[:_FAULTS_SHOWN]
    texts = [": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"]))) for fault in shown]
    more = faults.error_count() - len(shown)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def weights_digest(model: Model, lock: WeightsLock | None) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of what is staged."""
    identity = {
        "repository": model.repository,
        "revision": model.revision,
        "include": sorted(set(model.include)),
        "lock_sha256": lock.sha256 if lock else None,
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
