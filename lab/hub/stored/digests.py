"""Computes the SHA-256 of contents once and stores it.

The state directory has one small file per content, and several hubs can share it. Without a state directory, the hashes
last as long as the process.
"""

import hashlib
import sys
from pathlib import Path

from lab.hub.stored.content import StoredContent, whole

_WORTH_A_WORD = 1 << 30
"""Bytes from which on hashing is slow enough to report."""


class Digests:
    """The SHA-256 of any content, from memory, the state directory, or computed."""

    def __init__(self, state_dir: Path | None) -> None:
        self._state_dir = state_dir
        self._known: dict[str, str] = {}
        if state_dir is not None:
            state_dir.mkdir(parents=True, exist_ok=True)

    def sha256(self, content: StoredContent) -> str:
        """Returns the SHA-256 of `content` in hexadecimal. The first call reads all its bytes."""
        identity = content.identity
        if identity not in self._known:
            self._known[identity] = self._kept(identity) or self._compute(content)
        return self._known[identity]

    def _kept(self, identity: str) -> str | None:
        file = self._file(identity)
        return file.read_text().strip() if file is not None and file.exists() else None

    def _compute(self, content: StoredContent) -> str:
        if content.size > _WORTH_A_WORD:
            print(f"hashing {content.size / 1e9:.1f} GB once ({content.identity})", file=sys.stderr, flush=True)
        digest = hashlib.sha256()
        for piece in whole(content):
            digest.update(piece)
        file = self._file(content.identity)
        if file is not None:
            fresh = file.with_suffix(".new")
            fresh.write_text(digest.hexdigest())
            fresh.replace(file)
        return digest.hexdigest()

    def _file(self, identity: str) -> Path | None:
        if self._state_dir is None:
            return None
        return self._state_dir / f"{hashlib.sha256(identity.encode()).hexdigest()}.sha256"
