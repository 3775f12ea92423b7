"""How often each path was asked for, how it was answered, and how many bytes of files were really sent."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PathLog:
    """The requests for one path."""

    requests: int = 0
    bytes: int = 0
    """Bytes of files that left the process, without headers, pages and JSON."""
    answers: Counter[str] = field(default_factory=Counter)
    """Number of answers by method and status, such as `GET 206`; 0 where the connection broke."""


class RequestLog:
    """All requests since the start or the last reset."""

    def __init__(self) -> None:
        self._paths: dict[str, PathLog] = {}

    def path(self, path: str) -> PathLog:
        """The log of one path, made at its first request."""
        return self._paths.setdefault(path, PathLog())

    def clear(self) -> None:
        """Forget all requests; answers under way no longer count."""
        self._paths.clear()

    def described(self) -> dict[str, dict[str, Any]]:
        """What `GET /lab/requests` says."""
        return {
            path: {"requests": log.requests, "bytes": log.bytes, "answers": dict(sorted(log.answers.items()))}
            for path, log in sorted(self._paths.items())
        }
