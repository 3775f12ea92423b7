"""Signed URLs that expire, like the hub's for files in LFS.

A URL is valid for one path until it expires or is revoked. Each URL is different, so that a test can see whether a
client requested a new one.
"""

import hashlib
import hmac
import itertools
import secrets
import time
from collections.abc import Mapping
from urllib.parse import quote, urlencode


class SignedUrls:
    """Signs and checks paths with a key that lasts as long as the process."""

    def __init__(self, lifetime: float) -> None:
        self._lifetime = lifetime
        self._key = secrets.token_bytes(32)
        self._serial = itertools.count(1)
        self._revoked: set[str] = set()

    def sign(self, path: str) -> str:
        """Returns `path` with a query that is valid for the configured lifetime."""
        expires = str(int(time.time() + self._lifetime))
        serial = str(next(self._serial))
        query = {"Expires": expires, "Serial": serial, "Signature": self._signature(path, expires, serial)}
        return f"{quote(path)}?{urlencode(query)}"

    def is_good(self, path: str, query: Mapping[str, str]) -> bool:
        """Returns whether the query signs the path, has not expired and is not revoked."""
        expires, serial = query.get("Expires", ""), query.get("Serial", "")
        signature = query.get("Signature", "")
        return (
            hmac.compare_digest(signature.encode(), self._signature(path, expires, serial).encode())
            and signature not in self._revoked
            and time.time() < float(expires)
        )

    def revoke(self, query: Mapping[str, str]) -> None:
        """Revokes the URL with this query."""
        self._revoked.add(query.get("Signature", ""))

    def _signature(self, path: str, expires: str, serial: str) -> str:
        return hmac.new(self._key, f"{path}\n{expires}\n{serial}".encode(), hashlib.sha256).hexdigest()
