"""The names of sources: `hub`, `s3://bucket/prefix`, `https://host/path`, `/directory` or `file:///directory`.

Needs only the standard library, so that a command line is checked before a client is imported. Refuses all other
texts at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from stager.errors import WrongUsage

HUB = "hub"
SOURCES = "hub, s3://bucket/prefix, https://host/path or /directory"
_CREDENTIALS = re.compile(r"((?:\w+://)?).*@", re.DOTALL)


def require_names(names: Sequence[str]) -> None:
    """Refuse all texts that name no source, at once."""
    wrong = ", ".join(shown(name) for name in names if not is_source(name))
    if wrong:
        raise WrongUsage(f"source {wrong}: expected {SOURCES}")


def require_mirror(name: str) -> None:
    """Refuse a text that names no bucket."""
    if not _is_bucket(name):
        raise WrongUsage(f"mirror {shown(name)}: expected s3://bucket/prefix")


def shown(address: str) -> str:
    """A text in quotes, without user and password, even if it is not a valid address."""
    return repr(_CREDENTIALS.sub(r"\1", address, count=1))


def is_web_address(text: str) -> bool:
    """Whether `text` is the address of a web server."""
    parts = _parts(text)
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def is_source(name: str) -> bool:
    """Whether a text names a source."""
    is_directory = name.startswith(("/", "file:///"))
    return name == HUB or is_directory or _is_bucket(name) or is_web_address(name)


def _is_bucket(name: str) -> bool:
    parts = _parts(name)
    return parts is not None and parts.scheme == "s3" and bool(parts.netloc)


def _parts(text: str) -> SplitResult | None:
    """The parts of a URL. None: not valid (a space, or an impossible host or port)."""
    if " " in text or not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    return None if port == 0 else parts
