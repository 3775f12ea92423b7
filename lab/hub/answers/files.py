"""File downloads: `resolve`, the cache for small files, and the storage for files in LFS.

`resolve` only redirects: for a small file to a path of the hub, for a file in LFS to a signed URL of the storage. The
storage is another origin, and its entity tag is not the file's SHA-256. It rejects a hub token, because a client must
not send the token to another origin.
"""

import hashlib
from urllib.parse import quote, urlencode

from aiohttp import web

from lab.hub.answers import access, refusals
from lab.hub.answers.delivery import deliver
from lab.hub.faults import Expire
from lab.hub.hub import HUB
from lab.hub.stored.repository import StoredFile

_NAMED_FILE = "{repository:[^/]+/[^/]+}/{revision}/{path:.+}"


def hub_routes() -> list[web.RouteDef]:
    """Returns the routes on the hub's port."""
    return [
        web.get("/{repository:[^/]+/[^/]+}/resolve/{revision}/{path:.+}", resolve),
        web.get(f"/api/resolve-cache/models/{_NAMED_FILE}", small_file),
    ]


def storage_routes() -> list[web.RouteDef]:
    """Returns the routes on the storage's port."""
    return [web.get(f"/storage/{_NAMED_FILE}", large_file)]


async def resolve(request: web.Request) -> web.Response:
    """Redirects to a file's bytes, with its size, hash and commit in headers."""
    name = request.match_info["repository"]
    commit, file = _permitted_file(request)
    headers = {
        "X-Repo-Commit": commit,
        "X-Linked-ETag": file.etag,
        "X-Linked-Size": str(file.size),
        "Accept-Ranges": "bytes",
    }
    if file.sha256 is None:
        query = urlencode({"etag": file.etag})
        location = f"/api/resolve-cache/models/{quote(f'{name}/{commit}/{file.path}')}?{query}"
        return web.Response(status=307, headers={**headers, "Location": location})
    hub = request.app[HUB]
    storage = request.url.origin().with_port(hub.storage_port)
    signed = hub.signed_urls.sign(f"/storage/{name}/{commit}/{file.path}")
    return web.Response(status=302, headers={**headers, "Location": f"{storage}{signed}"})


async def small_file(request: web.Request) -> web.StreamResponse:
    """Sends a file outside LFS."""
    commit, file = _permitted_file(request)
    return await deliver(request, file.content, etag=file.etag, commit=commit, compressible=True)


async def large_file(request: web.Request) -> web.StreamResponse:
    """Sends a file in LFS if the signed URL is valid."""
    hub = request.app[HUB]
    if "Authorization" in request.headers:
        return _storage_error(400, "InvalidArgument", "Only one auth mechanism allowed")
    if hub.faults.take(Expire, request):
        hub.signed_urls.revoke(request.query)
    if not hub.signed_urls.is_good(request.path, request.query):
        return _storage_error(403, "AccessDenied", "Request has expired")
    _, file = _file(request)
    storage_etag = hashlib.sha256(f"storage {file.sha256}".encode()).hexdigest()
    return await deliver(request, file.content, etag=f'"{storage_etag}"')


def _permitted_file(request: web.Request) -> tuple[str, StoredFile]:
    stored = access.repository(request)
    access.may_read(request, stored)
    return _file(request)


def _file(request: web.Request) -> tuple[str, StoredFile]:
    revision = access.revision(request, access.repository(request))
    file = revision.files.get(request.match_info["path"])
    if file is None:
        raise refusals.entry_not_found(revision.commit)
    return revision.commit, file


def _storage_error(status: int, code: str, message: str) -> web.Response:
    page = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return web.Response(status=status, text=page, content_type="application/xml")
