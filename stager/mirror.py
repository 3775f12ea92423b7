"""Fills an S3 mirror from a lock, so that only this run asks the hub, and every node reads the mirror.

Streams fetch and upload parts in parallel, without a disk; each holds at most two parts in memory. Each part is sent
with its SHA-256. The mirror hashes each file whole before it completes the upload, and then writes a note beside the
object. A new run continues with the parts of an earlier one. It reads a file with parts of two runs back and hashes
it, since this process did not see all bytes. Refuses a source whose bytes are wrong.
"""

from __future__ import annotations

import base64
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from stager.content_hash import ContentHash
from stager.errors import StagerError, Stopped
from stager.listing import Listing, RemoteFile
from stager.manifest import OWN_DIRECTORY
from stager.multipart import PART_BYTES, MultipartUpload, Range, ranges
from stager.progress import Progress
from stager.ranges import RangeReader
from stager.s3 import s3_client
from stager.source import object_key, sources
from stager.source_name import require_mirror, require_names
from stager.source_pool import SourcePool, Unobtainable
from stager.stopping import STOPPED, pause_until

MISSING = frozenset({"404", "NoSuchKey", "NotFound"})


def mirror(
    listing: Listing,
    target: str,
    *,
    source_names: Sequence[str],
    streams: int,
    stall_seconds: float,
    progress: Progress,
    stop_event: threading.Event,
) -> None:
    """Copy every file of `listing` to `target` (`s3://bucket/prefix`), verified; raises `StagerError`."""
    require_names(source_names)
    require_mirror(target)
    reader = RangeReader(streams=streams, stall_seconds=stall_seconds)
    fetch, read_back = (
        SourcePool(sources(names, listing, reader), say=progress.say, pause=pause_until(stop_event))
        for names in (source_names, [target])
    )
    progress.total = listing.total_bytes
    with ThreadPoolExecutor(max_workers=streams) as pool:
        filling = _Filling(
            client=s3_client(connections=2 * streams),
            bucket=urlsplit(target).netloc,
            key=object_key(target, listing),
            sources=fetch,
            read_back=read_back,
            pool=pool,
            streams=streams,
            progress=progress,
            stop_event=stop_event,
        )
        try:
            for file in listing.files:
                filling.bring(file)
        except (ClientError, BotoCoreError) as error:
            raise StagerError(f"{target}: {error}") from None
        except Unobtainable as reason:
            raise StagerError(str(reason)) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_event.set()
    progress.say(progress.summary(len(listing.files)))


@dataclass(frozen=True, kw_only=True)
class _Filling:
    """One run; `key` gives the key of a path, `pool` has a thread for each of the `streams`."""

    client: Any
    bucket: str
    key: Callable[[str], str]
    sources: SourcePool
    read_back: SourcePool
    pool: ThreadPoolExecutor
    streams: int
    progress: Progress
    stop_event: threading.Event

    def bring(self, file: RemoteFile) -> None:
        """Copy `file` to the mirror, verified, unless it is there already."""
        etag = self._etag(file)
        if etag and self._noted(file) == _note(file, etag):
            self.progress.add_reused(file.size)
            return
        if etag and self._hash_in_mirror(file).problem():
            self.progress.say(f"{file.path}: the mirror's copy is wrong; sending it again")
            etag = None
        elif etag:
            self.progress.add_reused(file.size)
        etag = etag or self._send(file)
        self.client.put_object(Bucket=self.bucket, Key=self._note_key(file), Body=_note(file, etag))
        self.progress.say(f"{file.path}: {file.size:,} bytes, hash is right")

    def _send(self, file: RemoteFile) -> str:
        """Copy `file` until its hash is right, from the next source each time; returns its ETag."""
        problem = ""
        for skip in range(max(2, len(self.sources.sources))):
            etag, problem = self._send_small(file, skip) if file.size <= PART_BYTES else self._send_parts(file, skip)
            if etag is not None:
                return etag
            origin = ", ".join(self.sources.origins(file)) or "the mirror"
            problem = f"{file.path}: wrong content from {origin}: {problem}"
            self.progress.say(problem)
            self.sources.forget_origins(file)
            self.progress.add_fetched(-file.size)
        raise StagerError(problem)

    def _send_small(self, file: RemoteFile, skip: int) -> tuple[str | None, str]:
        content = self._fetch(self.sources, file, Range(1, 0, file.size), skip)
        content_hash = ContentHash(file)
        content_hash.update(content)
        if problem := content_hash.problem():
            return None, problem
        checksum = base64.b64encode(bytes.fromhex(content_hash.sha256)).decode()
        answer = self.client.put_object(
            Bucket=self.bucket, Key=self.key(file.path), Body=content, ChecksumSHA256=checksum
        )
        return str(answer["ETag"]), ""

    def _send_parts(self, file: RemoteFile, skip: int) -> tuple[str | None, str]:
        upload = MultipartUpload(self.client, self.bucket, self.key(file.path), file)

        def fetch_and_send(part: Range) -> bytearray:
            content = self._fetch(self.sources, file, part, skip)
            upload.send(part, content)
            return content

        missing = [part for part in ranges(file) if not upload.has(part)]
        self.progress.add_reused(file.size - sum(part.end - part.start for part in missing))
        content_hash = ContentHash(file)
        for content in self._in_order(fetch_and_send, missing):
            content_hash.update(content)
        if not upload.resumed and (problem := content_hash.problem()):
            upload.abort()
            return None, problem
        etag = upload.complete()
        if upload.resumed and (problem := self._hash_in_mirror(file).problem()):
            self.client.delete_object(Bucket=self.bucket, Key=self.key(file.path))
            return None, problem
        return etag, ""

    def _hash_in_mirror(self, file: RemoteFile) -> ContentHash:
        self.progress.say(f"{file.path}: reading it back from the mirror to verify it")
        content_hash = ContentHash(file)
        for content in self._in_order(lambda part: self._fetch(self.read_back, file, part), ranges(file)):
            content_hash.update(content)
        return content_hash

    def _in_order(self, work: Callable[[Range], bytearray], parts: list[Range]) -> Iterator[bytearray]:
        """The results of `work` in the order of `parts`, with one part in progress for each stream."""
        under_way: deque[Future[bytearray]] = deque()
        for part in parts:
            under_way.append(self.pool.submit(work, part))
            if len(under_way) == self.streams:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    def _fetch(self, source_pool: SourcePool, file: RemoteFile, part: Range, skip: int = 0) -> bytearray:
        content = bytearray()
        for chunk in source_pool.read(file, part.start, part.end, skip=skip):
            if self.stop_event.is_set():
                raise Stopped(STOPPED)
            content += chunk
            if source_pool is self.sources:
                self.progress.add_fetched(len(chunk))
        return content

    def _etag(self, file: RemoteFile) -> str | None:
        """The ETag of the object of `file`. None: missing, or of another size."""
        try:
            answer = self.client.head_object(Bucket=self.bucket, Key=self.key(file.path))
        except ClientError as error:
            if error.response["Error"]["Code"] in MISSING:
                return None
            raise
        return str(answer["ETag"]) if answer["ContentLength"] == file.size else None

    def _note_key(self, file: RemoteFile) -> str:
        return self.key(f"{OWN_DIRECTORY}/verified/{file.path}")

    def _noted(self, file: RemoteFile) -> bytes | None:
        try:
            return bytes(self.client.get_object(Bucket=self.bucket, Key=self._note_key(file))["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in MISSING:
                return None
            raise


def _note(file: RemoteFile, etag: str) -> bytes:
    """The note beside a verified object; the ETag binds it to exactly these bytes."""
    return json.dumps({"sha256": file.sha256, "etag": etag}).encode()
