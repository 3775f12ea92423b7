"""Sends a file or a range of it, with the faults that apply while bytes are sent."""

import asyncio
import socket
import struct
from collections.abc import Iterator

from aiohttp import web

from lab.hub.answers.ranges import NotSatisfiableError, requested_range
from lab.hub.faults import FaultAt, Flip, IgnoreRange, Length, ResetBody, Stall, Truncate
from lab.hub.hub import HUB, PATH_LOG
from lab.hub.pace import Pace
from lab.hub.stored.altered_content import FlippedContent, ResizedContent
from lab.hub.stored.content import PIECE, Content

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def deliver(
    request: web.Request, content: Content, *, etag: str, commit: str | None = None, compressible: bool = False
) -> web.StreamResponse:
    """Responds to GET or HEAD for a file. Honours a single range.

    If the client accepts gzip and requests no range, a compressible file is sent with gzip and without a length, as the
    real hub's CDN does.
    """
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    if commit is not None:
        headers["X-Repo-Commit"] = commit
    if request.method == "GET":
        content = _resized(request, content)
    try:
        asked = _asked_range(request, content, etag)
    except NotSatisfiableError:
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{content.size}"})
    start, stop = asked or (0, content.size)
    response = web.StreamResponse(status=206 if asked else 200, headers=headers)
    response.content_length = stop - start
    if asked:
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    elif compressible and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.headers["ETag"] = f"W/{etag}"
        response.enable_compression(web.ContentCoding.gzip)
    await response.prepare(request)
    if request.method == "GET":
        await _send(request, response, content, start, stop)
    return response


def reset(request: web.BaseRequest) -> None:
    """Resets the client's connection."""
    transport = request.transport
    if transport is None:
        return
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def close(request: web.BaseRequest) -> None:
    """Closes the connection normally, after the bytes that are already written."""
    if request.transport is not None:
        request.transport.close()


def _resized(request: web.Request, content: Content) -> Content:
    fault = request.app[HUB].faults.take(Length, request)
    return content if fault is None else ResizedContent(content, fault.by)


def _asked_range(request: web.Request, content: Content, etag: str) -> tuple[int, int] | None:
    asked = requested_range(request.headers, size=content.size, etag=etag)
    ignored = asked and request.method == "GET" and request.app[HUB].faults.take(IgnoreRange, request)
    return None if ignored else asked


async def _send(request: web.Request, response: web.StreamResponse, content: Content, start: int, stop: int) -> None:
    faults = request.app[HUB].faults
    for flip in faults.take_at(Flip, request, start, stop):
        content = FlippedContent(content, flip.offset)
    interruptions: list[FaultAt] = [
        *faults.take_at(Stall, request, start, stop),
        *faults.take_at(Truncate, request, start, stop),
        *faults.take_at(ResetBody, request, start, stop),
    ]
    paces = faults.take_paces(request)
    for interruption in sorted(interruptions, key=lambda fault: fault.offset):
        await _stream(request, response, content.pieces(start, interruption.offset), paces)
        start = interruption.offset
        if isinstance(interruption, Stall):
            await asyncio.sleep(interruption.seconds)
        else:
            (reset if isinstance(interruption, ResetBody) else close)(request)
            return
    await _stream(request, response, content.pieces(start, stop), paces)


async def _stream(
    request: web.Request, response: web.StreamResponse, pieces: Iterator[memoryview], paces: list[Pace]
) -> None:
    log = request[PATH_LOG]
    limit = min((pace.piece for pace in paces), default=PIECE)
    for piece in pieces:
        for position in range(0, len(piece), limit):
            part = piece[position : position + limit]
            for pace in paces:
                await pace.admit(len(part))
            await response.write(part)
            log.bytes += len(part)
