"""Reads ranges of a file over HTTP, at the speed of the socket; errors name the exact fault.

Uses urllib3, as boto3 does: measured here, it takes a third of the CPU time per byte of the client of huggingface_hub,
whose pure Python parser touches each byte several times. Refuses every answer that is not exactly the requested range
of a file of the right length: a login page, a truncated body, another file.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import re
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urljoin, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

from stager.environment import proxies, require_usable_environment, trusted_authorities
from stager.errors import SourceRefusal, SourceTrouble
from stager.listing import RemoteFile
from stager.watchdog import WATCHDOG, watch

CHUNK_BYTES = 1024 * 1024
# Pieces grow while they come quickly, so that a reader soon sees a slow connection.
FIRST_PIECE_BYTES = 32 * 1024
SLOW_SECONDS = 0.5
CONNECT_SECONDS = 10
MAX_REDIRECTS = 5
NO_BYTE = "no byte"
PAGE_BYTES = 2048
TOLERATED_SKEW_SECONDS = 300

TRUST_ADVICE = "give the certificate authority in SSL_CERT_FILE, or for S3 in AWS_CA_BUNDLE"

WHOLE_FILES = "from a hub, heavylift:stage.native_xet: true fetches whole files"

TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
GONE = frozenset({401, 403, 404, 410})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
PORTS = {"http": 80, "https": 443}
# No number has more digits than the largest file (https://www.man7.org/linux/man-pages/man2/lseek.2.html).
CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.ASCII)
SECONDS = re.compile(r"\d{1,9}", re.ASCII)
RATE_LIMIT = re.compile(r";\s*t=(\d{1,9})\b", re.ASCII)
XML_CODE = re.compile(rb"<Code>(\w+)</Code>")


@dataclass(frozen=True)
class Address:
    """The present URL of a file, which may be signed and expire, and the headers to send."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class AddressStale(Exception):
    """The address no longer leads to the file; a new one may."""


def without_secrets(url: str) -> str:
    """`url` without query (signatures), user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class RangeReader:
    """A pool of connections for `streams` simultaneous reads, through the proxies that the environment names.

    A read fails if no byte, or hardly any, comes for `stall_seconds`. `inside` the cluster, a read uses no proxy and
    follows no redirect.
    """

    def __init__(self, *, streams: int, stall_seconds: float, inside: bool = False) -> None:
        self._timeout = urllib3.Timeout(connect=min(CONNECT_SECONDS, stall_seconds), read=stall_seconds)
        self._stall_seconds = stall_seconds
        require_usable_environment()
        trust = trusted_authorities()
        self._direct = watch(urllib3.PoolManager(maxsize=streams, ssl_context=trust))
        self._proxies = {
            scheme: watch(
                urllib3.ProxyManager(url, maxsize=streams, ssl_context=trust, proxy_headers=_proxy_credentials(url))
            )
            for scheme, url in ({} if inside else proxies()).items()
        }
        self._most_redirects = 0 if inside else MAX_REDIRECTS

    def read(self, address: Address, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end` of `file`, in pieces of up to 1 MiB.

        Raises `SourceTrouble` if a retry may help, `AddressStale` if the address may have expired, and `SourceRefusal`
        if the answer is not the file.
        """
        response = self._get(address, {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"})
        used_up = False
        try:
            _require_range(response, file, start, end)
            yield from self._body(response, file, end - start)
            used_up = "Content-Length" in response.headers
        finally:
            if not used_up:
                response.close()
            response.release_conn()

    def _get(self, address: Address, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        url, sent = address.url, {**address.headers, **headers}
        for _ in range(self._most_redirects + 1):
            response = self._request(url, sent)
            if response.status not in REDIRECTS:
                return response
            self._leave(response)
            target = _redirected(url, response)
            if _origin(target) != _origin(url):
                sent = headers
            url = target
        raise SourceRefusal(f"{without_secrets(address.url)}: more than {self._most_redirects} redirects")

    def _leave(self, response: urllib3.BaseHTTPResponse) -> None:
        """Read the short body of a redirect, so that its connection can be used again; else close it."""
        length = response.headers.get("Content-Length", "")
        if SECONDS.fullmatch(length) and int(length) <= PAGE_BYTES:
            with contextlib.suppress(HTTPError, OSError), WATCHDOG.within(self._stall_seconds, response.shutdown):
                response.read()
                response.release_conn()
                return
        response.close()

    def _request(self, url: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        pool = self._pool(url)
        try:
            return pool.request(
                "GET",
                url,
                headers=headers,
                preload_content=False,
                decode_content=False,
                redirect=False,
                retries=False,
                timeout=self._timeout,
            )
        except (HTTPError, OSError) as error:
            if isinstance(error.args[0] if error.args else None, ssl.SSLCertVerificationError):
                raise SourceRefusal(f"{without_secrets(url)}: {error.args[0].verify_message}: {TRUST_ADVICE}") from None
            raise SourceTrouble(f"{without_secrets(url)}: {self._cause(error)}") from None

    def _pool(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxy = self._proxies.get(parts.scheme)
        return self._direct if proxy is None or urllib.request.proxy_bypass(parts.hostname or "") else proxy

    def _body(self, response: urllib3.BaseHTTPResponse, file: RemoteFile, expected: int) -> Iterator[bytes]:
        left, piece = expected, FIRST_PIECE_BYTES
        while left:
            began, piece = time.monotonic(), min(piece, left)
            try:
                with WATCHDOG.within(self._stall_seconds, response.shutdown):
                    chunk = response.read(piece)
                cause = "the answer ended"
            except (HTTPError, OSError) as error:
                chunk, cause = b"", self._cause(error)
            took = time.monotonic() - began
            if len(chunk) < piece and took >= self._stall_seconds and not cause.startswith(NO_BYTE):
                chunk, cause = b"", f"less than {piece:,} bytes in {took:.0f} s"
            if not chunk:
                raise SourceTrouble(f"{file.path}: {cause}, {left:,} bytes before the end")
            piece = min(2 * piece, CHUNK_BYTES) if took < SLOW_SECONDS else FIRST_PIECE_BYTES
            left -= len(chunk)
            yield chunk

    def _cause(self, error: Exception) -> str:
        if isinstance(error, ReadTimeoutError):
            return f"{NO_BYTE} for {self._stall_seconds:g} s"
        if isinstance(error, NewConnectionError):
            return f"no connection: {error.__cause__ or error}"
        if isinstance(error, ConnectTimeoutError):
            return f"no connection within {self._timeout.connect_timeout:g} s"
        return f"{type(error).__name__}: {_without_addresses(str(error))}"


def _redirected(url: str, response: urllib3.BaseHTTPResponse) -> str:
    """The target of a redirect; refuses one from https to another scheme."""
    try:
        target = urljoin(url, response.headers.get("Location", ""))
        scheme = _origin(target)[0]
    except ValueError:
        raise SourceRefusal(f"{without_secrets(url)}: redirects to what is no address") from None
    if scheme != "https" and _origin(url)[0] == "https":
        raise SourceRefusal(f"{without_secrets(url)}: redirects from https to {scheme or 'nothing'}, which is not safe")
    return target


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """The origin that may get a token: scheme, host, port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _proxy_credentials(url: str) -> Mapping[str, str] | None:
    parts = urlsplit(url)
    if not parts.username:
        return None
    return urllib3.make_headers(proxy_basic_auth=f"{unquote(parts.username)}:{unquote(parts.password or '')}")


def _without_addresses(text: str) -> str:
    return re.sub(r"\bhttps?://\S+|/\S*\?\S+", "(address)", text)


def _require_range(response: urllib3.BaseHTTPResponse, file: RemoteFile, start: int, end: int) -> None:
    if response.status == 206:
        _require_content_range(response, file, start, end)
    elif response.status == 200:
        _require_whole_file(response, file, start, end)
    else:
        _raise_for_status(response, file)
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise SourceRefusal(f"{file.path}: sent with Content-Encoding {encoding}, asked for none")


def _require_content_range(response: urllib3.BaseHTTPResponse, file: RemoteFile, start: int, end: int) -> None:
    header = response.headers.get("Content-Range", "")
    match = CONTENT_RANGE.fullmatch(header)
    if match is None or (int(match[1]), int(match[2])) != (start, end - 1):
        if match and match[3] not in ("*", str(file.size)):
            raise SourceRefusal(f"{file.path}: {match[3]} bytes there, expected {file.size}")
        raise SourceTrouble(f"{file.path}: asked for bytes {start}-{end - 1}, answered {header or 'without a range'}")
    if match[3] not in ("*", str(file.size)):
        raise SourceRefusal(f"{file.path}: {match[3]} bytes there, expected {file.size}")


def _require_whole_file(response: urllib3.BaseHTTPResponse, file: RemoteFile, start: int, end: int) -> None:
    length = response.headers.get("Content-Length")
    kind = response.headers.get("Content-Type", "")
    if length not in (None, str(file.size)):
        if kind.startswith("text/html"):
            raise SourceRefusal(f"{file.path}: a web page came instead of the file (a proxy's or login page?)")
        raise SourceRefusal(f"{file.path}: {length} bytes there, expected {file.size}")
    if start != 0 or end != file.size:
        raise SourceRefusal(
            f"{file.path}: the server does not give ranges of a file (it answered 200, not 206); {WHOLE_FILES}"
        )


def _raise_for_status(response: urllib3.BaseHTTPResponse, file: RemoteFile) -> None:
    wait = server_wait(response.headers)
    code = XML_CODE.search(_first_of_body(response)) if response.status not in TRANSIENT else None
    text = f"{file.path}: HTTP {response.status}{f' {code[1].decode()}' if code else ''}{_skew(response)}"
    if response.status in TRANSIENT:
        raise SourceTrouble(text, wait)
    # S3 says `ExpiredToken` with status 400 if the credentials ended before the address that they signed.
    if response.status in GONE or (code and code[1] == b"ExpiredToken"):
        raise AddressStale(text)
    if response.status == 400:
        raise SourceRefusal(f"{text} for a range; {WHOLE_FILES}")
    if response.status == 416:
        raise SourceRefusal(f"{file.path}: the file there is shorter than the expected {file.size} bytes")
    raise SourceRefusal(text)


def _first_of_body(response: urllib3.BaseHTTPResponse) -> bytes:
    """The first bytes of an error page; empty if the read fails, since the status is enough."""
    with contextlib.suppress(HTTPError, OSError):
        return response.read1(PAGE_BYTES)
    return b""


def server_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server asks to wait, from `Retry-After` or the hub's `RateLimit`.

    A date in `Retry-After` counts from the server's own `Date`, so the local clock does not matter.
    Formats: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after,
    https://huggingface.co/docs/hub/rate-limits.
    """
    asked = headers.get("Retry-After", "")
    if SECONDS.fullmatch(asked):
        return float(asked)
    until, now = _date(asked), _date(headers.get("Date", ""))
    if until and now:
        return max(0.0, (until - now).total_seconds())
    limit = RATE_LIMIT.search(headers.get("RateLimit", ""))
    return float(limit[1]) if limit else None


def _skew(response: urllib3.BaseHTTPResponse) -> str:
    """A hint if this machine's clock may cause a refusal: signatures are valid for minutes only."""
    theirs = _date(response.headers.get("Date", ""))
    if response.status not in (401, 403) or theirs is None:
        return ""
    ahead = (datetime.datetime.now(datetime.UTC) - theirs).total_seconds()
    if abs(ahead) <= TOLERATED_SKEW_SECONDS:
        return ""
    return f" (the clock here is {abs(ahead) / 60:.0f} min {'ahead of' if ahead > 0 else 'behind'} the server's)"


def _date(text: str) -> datetime.datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(text)
        # "-0000" means UTC: https://www.rfc-editor.org/rfc/rfc5322#section-3.3
        return date.replace(tzinfo=date.tzinfo or datetime.UTC).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None
