"""One request, one answer, nothing done behind the test's back: no redirects, no retries, no decompression."""

import http.client
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


def fetch(url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, timeout: float = 10) -> Answer:
    """The answer to one request; what breaks the connection is raised as `http.client` raises it."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    with closing(http.client.HTTPConnection(parts.netloc, timeout=timeout)) as connection:
        connection.request(method, target, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def located(url: str, *, headers: Mapping[str, str] | None = None) -> str:
    """Where a redirect leads."""
    answer = fetch(url, headers=headers)
    assert answer.status in {302, 307}, f"expected a redirect from {url}, found {answer.status}: {answer.body!r}"
    return urljoin(url, str(answer.headers["Location"]))
