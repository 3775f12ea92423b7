"""One multipart upload to S3 that survives its process: a new run sends only the missing parts."""

from __future__ import annotations

import base64
import hashlib
import math
from dataclasses import dataclass
from typing import Any

from stager.content_hash import Buffer
from stager.listing import RemoteFile

PART_BYTES = 16 * 1024 * 1024
MAX_PARTS = 10_000  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html


@dataclass(frozen=True)
class Range:
    """Part `number`, counted from 1, from `start` up to `end` in the file."""

    number: int
    start: int
    end: int


def ranges(file: RemoteFile) -> list[Range]:
    """The parts of `file`: of 16 MiB, or larger if S3's limit of 10,000 parts requires it."""
    length = max(PART_BYTES, math.ceil(file.size / MAX_PARTS))
    starts = range(0, file.size, length)
    return [Range(number, start, min(start + length, file.size)) for number, start in enumerate(starts, 1)]


class MultipartUpload:
    """The upload of `file` to `key`: an earlier run's, or a new one."""

    def __init__(self, client: Any, bucket: str, key: str, file: RemoteFile) -> None:
        self._client = client
        self._object = {"Bucket": bucket, "Key": key}
        self._upload_id = self._begun_earlier()
        self._parts = self._sent_earlier(file) if self._upload_id else {}
        self.resumed = bool(self._parts)
        """Whether parts came from another run, which this one did not hash."""
        if self._upload_id is None:
            self._upload_id = client.create_multipart_upload(**self._object, ChecksumAlgorithm="SHA256")["UploadId"]

    def has(self, part: Range) -> bool:
        """Whether an earlier run sent this part."""
        return part.number in self._parts

    def send(self, part: Range, content: Buffer) -> None:
        """Send one part; the server checks its SHA-256. Thread-safe."""
        checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
        answer = self._client.upload_part(
            **self._object,
            UploadId=self._upload_id,
            PartNumber=part.number,
            Body=content,
            ChecksumSHA256=checksum,
        )
        self._parts[part.number] = {"PartNumber": part.number, "ETag": answer["ETag"], "ChecksumSHA256": checksum}

    def complete(self) -> str:
        """Join the parts to the object; returns its ETag."""
        parts = [self._parts[number] for number in sorted(self._parts)]
        answer = self._client.complete_multipart_upload(
            **self._object, UploadId=self._upload_id, MultipartUpload={"Parts": parts}
        )
        return str(answer["ETag"])

    def abort(self) -> None:
        """Delete all parts."""
        self._client.abort_multipart_upload(**self._object, UploadId=self._upload_id)

    def _begun_earlier(self) -> str | None:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._object["Bucket"], Prefix=self._object["Key"]
        )
        uploads = [upload for page in pages for upload in page.get("Uploads", ())]
        mine = [upload for upload in uploads if upload["Key"] == self._object["Key"]]
        return str(max(mine, key=lambda upload: upload["Initiated"])["UploadId"]) if mine else None

    def _sent_earlier(self, file: RemoteFile) -> dict[int, dict[str, Any]]:
        pages = self._client.get_paginator("list_parts").paginate(**self._object, UploadId=self._upload_id)
        sizes = {part.number: part.end - part.start for part in ranges(file)}
        return {
            part["PartNumber"]: {key: part[key] for key in ("PartNumber", "ETag", "ChecksumSHA256")}
            for page in pages
            for part in page.get("Parts", ())
            if part["Size"] == sizes.get(part["PartNumber"]) and "ChecksumSHA256" in part
        }
