"""SHA-256 of contents, computed once and kept.

One small file per content in the state directory, so that several hubs can share it; without a state directory the
hashes live as long as the process.
"""

import hashlib
import sys
from pathlib import Path

from lab.hub.stored.content import StoredContent, whole

_WORTH_A_WORD = 1 << 30
"""Bytes of which the hash takes long enough that a person would wonder."""


class Digests:
    """The SHA-256 of any content, from memory, from the state directory, or computed now."""

    def __init__(self, state_dir: Path | None) -> None:
        self._state_dir = state_dir
        self._known: dict[str, str] = {}
        if state_dir is not None:
            state_dir.mkdir(parents=True, exist_ok=True)

    def sha256(self, content: StoredContent) -> str:
        """The SHA-256 of `content` in hexadecimal; the first call for it reads all its bytes."""
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
