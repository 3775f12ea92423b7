"""The hash of one file while its bytes arrive: SHA-256, and git's own if the hub has no SHA-256."""

from __future__ import annotations

import hashlib

from stager.listing import RemoteFile

Buffer = bytes | bytearray | memoryview


class ContentHash:
    """Hashes a file in order; a copy at any point gives the hash of a prefix.

    A git blob's id is the SHA-1 of `blob <size>\\0` and the content
    (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects).
    """

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._blob = None if file.sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)

    def update(self, content: Buffer) -> None:
        """Add the next bytes."""
        self._sha256.update(content)
        if self._blob:
            self._blob.update(content)

    def copy(self) -> ContentHash:
        """A copy with the same state."""
        twin = ContentHash(self._file)
        twin._sha256 = self._sha256.copy()
        twin._blob = self._blob.copy() if self._blob else None
        return twin

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, in hexadecimal."""
        return self._sha256.hexdigest()

    def problem(self) -> str | None:
        """How the hash differs from the expected one. None: equal."""
        found = f"git blob {self._blob.hexdigest()}" if self._blob else f"SHA-256 {self.sha256}"
        return None if found == self._file.expected_hash else f"expected {self._file.expected_hash}, found {found}"
