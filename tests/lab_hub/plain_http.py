"""An HTTP client without redirects, retries and decompression: one request, one answer."""

import http.client
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit


@dataclass(frozen=True)
class Answer:
    """An answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


def fetch(url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, timeout: float = 10) -> Answer:
    """Returns the answer to one request. Raises the errors of `http.client`."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    with closing(http.client.HTTPConnection(parts.netloc, timeout=timeout)) as connection:
        connection.request(method, target, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def located(url: str, *, headers: Mapping[str, str] | None = None) -> str:
    """Returns the target of a redirect."""
    answer = fetch(url, headers=headers)
    assert answer.status in {302, 307}, f"expected a redirect from {url}, found {answer.status}: {answer.body!r}"
    return urljoin(url, str(answer.headers["Location"]))
