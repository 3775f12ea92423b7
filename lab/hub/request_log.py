"""Counts requests, responses and sent file bytes by path."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PathLog:
    """The requests for one path."""

    requests: int = 0
    bytes: int = 0
    """File bytes sent, without headers, pages and JSON."""
    answers: Counter[str] = field(default_factory=Counter)
    """Number of responses by method and status, such as `GET 206`. Status 0: the connection broke."""


class RequestLog:
    """All requests since the start or the last reset."""

    def __init__(self) -> None:
        self._paths: dict[str, PathLog] = {}

    def path(self, path: str) -> PathLog:
        """Returns the log of a path, and creates it at the first request."""
        return self._paths.setdefault(path, PathLog())

    def clear(self) -> None:
        """Removes all requests. Responses in progress no longer count."""
        self._paths.clear()

    def described(self) -> dict[str, dict[str, Any]]:
        """Returns the body of `GET /lab/requests`."""
        return {
            path: {"requests": log.requests, "bytes": log.bytes, "answers": dict(sorted(log.answers.items()))}
            for path, log in sorted(self._paths.items())
        }
