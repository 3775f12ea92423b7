"""The sources of bytes, in the order of the stack: the hub, an S3 mirror, a web server, a share.

One text names a source (see `source_name.py`). A file is at `<source>/<repository>/<commit>/<path>`, unless the text
contains `{repository}`, `{commit}` and `{path}`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from stager.errors import SourceRefusal, SourceTrouble
from stager.listing import Listing, RemoteFile
from stager.ranges import CHUNK_BYTES, Address, AddressStale, RangeReader, without_secrets
from stager.source_name import HUB

# A cached one and two new ones: a signed URL can expire, or be replaced, before use.
ADDRESSES_TRIED = 3
SMALL_BYTES = 4 * 1024 * 1024
"""A file of up to this size is fetched by one request."""
DEFAULT_LAYOUT = "/{repository}/{commit}/{path}"


class Source(Protocol):
    """Reads ranges of the files of one listing; messages use `name`."""

    name: str

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`; raises `SourceTrouble` or `SourceRefusal`."""


def sources(names: Sequence[str], listing: Listing, reader: RangeReader) -> list[Source]:
    """The sources named `names`, in their order, for the files of `listing`."""
    return [_source(name, listing, reader) for name in names]


def _source(name: str, listing: Listing, reader: RangeReader) -> Source:
    if name == HUB:
        return _hub_source(listing, reader)
    kind = urlsplit(name).scheme
    if kind == "s3":
        return _s3_source(name, listing, reader)
    place = _layout(name, listing)
    if kind in ("http", "https"):
        return WebSource(without_secrets(name), lambda file: Address(place(quote(file.path))), reader)
    return DirectorySource(name, lambda file: Path(place(file.path).removeprefix("file://")))


# The hub's library and boto3 take a quarter of a second to import: only a run that uses one pays for it.


def _hub_source(listing: Listing, reader: RangeReader) -> Source:
    from stager.hub import Hub

    hub = Hub()
    return HubSource(
        hub.name,
        lambda file: hub.locate(listing, file),
        reader,
        guess=lambda file: hub.cache_address(listing, file),
        permanent=lambda file: hub.permanent_address(listing, file),
    )


def _s3_source(name: str, listing: Listing, reader: RangeReader) -> Source:
    from stager.s3 import Bucket

    bucket, key = Bucket(urlsplit(name).netloc), object_key(name, listing)
    return WebSource(name, lambda file: bucket.locate(file, key(file.path)), reader)


def _layout(name: str, listing: Listing) -> Callable[[str], str]:
    template = name if "{path}" in name else name.rstrip("/") + DEFAULT_LAYOUT
    fixed = template.replace("{repository}", listing.repository).replace("{commit}", listing.commit)
    return lambda path: fixed.replace("{path}", path)


def object_key(name: str, listing: Listing) -> Callable[[str], str]:
    """A function from a path in the repository to the object's key in the bucket of the S3 source `name`."""
    place = _layout(name, listing)
    return lambda path: place(path).removeprefix("s3://").partition("/")[2]


class WebSource:
    """Files over HTTP; `locate` finds the address of a file, which is cached until it expires."""

    def __init__(self, name: str, locate: Callable[[RemoteFile], Address], reader: RangeReader) -> None:
        self.name = name
        self._locate = locate
        self._reader = reader
        self._addresses: dict[str, Address] = {}

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`; looks up an expired address again."""
        reason = ""
        for _ in range(ADDRESSES_TRIED):
            address = self._addresses.get(file.path) or self._locate(file)
            self._addresses[file.path] = address
            try:
                yield from self._reader.read(address, file, start, end)
            except AddressStale as stale:
                reason = str(stale)
                self._addresses.pop(file.path, None)
            except SourceTrouble:
                self._addresses.pop(file.path, None)
                raise
            else:
                return
        raise SourceRefusal(reason)


class HubSource(WebSource):
    """The hub, which takes one request for a small file where others take three.

    `guess` gives the address that the hub redirects small files to. It is not documented, so the first failure ends
    its use. Then `permanent` gives the address that redirects. If that fails too, `locate` does, and says why.
    """

    def __init__(
        self,
        name: str,
        locate: Callable[[RemoteFile], Address],
        reader: RangeReader,
        *,
        guess: Callable[[RemoteFile], Address],
        permanent: Callable[[RemoteFile], Address],
    ) -> None:
        super().__init__(name, locate, reader)
        self._guess = guess
        self._permanent = permanent
        self._guesses = True
        self._tried: set[str] = set()

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`; reads a small file once without looking up its address."""
        if file.size <= SMALL_BYTES and file.path not in self._tried:
            self._tried.add(file.path)
            if self._guesses:
                try:
                    yield from self._reader.read(self._guess(file), file, start, end)
                except (AddressStale, SourceRefusal):
                    self._guesses = False
                except SourceTrouble:
                    self._guesses = False
                    raise
                else:
                    return
            try:
                yield from self._reader.read(self._permanent(file), file, start, end)
            except (AddressStale, SourceRefusal):
                pass
            else:
                return
        yield from super().read(file, start, end)


class DirectorySource:
    """Files on a share that is mounted here."""

    def __init__(self, name: str, locate: Callable[[RemoteFile], Path]) -> None:
        self.name = name
        self._locate = locate

    def read(self, file: RemoteFile, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`."""
        path = self._locate(file)
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as content:
                status = os.fstat(content.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise SourceRefusal(f"{path}: is no regular file")
                if status.st_size != file.size:
                    raise SourceRefusal(f"{path}: {status.st_size} bytes there, expected {file.size}")
                while start < end:
                    chunk = os.pread(content.fileno(), min(CHUNK_BYTES, end - start), start)
                    if not chunk:
                        raise SourceTrouble(f"{path}: ended at {start}, expected {file.size} bytes")
                    yield chunk
                    start += len(chunk)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise SourceRefusal(f"{path}: {error.strerror}") from None
        except OSError as error:
            raise SourceTrouble(f"{path}: {error.strerror}") from None
