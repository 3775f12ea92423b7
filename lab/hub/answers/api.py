"""The hub's JSON API: user, model info, references, trees and paths.

Models only. Response bodies are those of `huggingface_hub` 2.4 (`ModelInfo`, `RepoFile`, `RepoFolder`, `GitRefs`).
"""

from typing import Any

from aiohttp import web

from lab.hub.answers import access, refusals
from lab.hub.stored.git_objects import lfs_pointer
from lab.hub.stored.repository import Revision, StoredFile

_PAGE = 1000
"""Entries of a tree per page, as on the real hub."""

_MODEL = "/api/models/{repository:[^/]+/[^/]+}"


def routes() -> list[web.RouteDef]:
    """Returns the routes of the API."""
    return [
        web.get("/api/whoami-v2", whoami),
        web.get(_MODEL, model_info),
        web.get(f"{_MODEL}/revision/{{revision}}", model_info),
        web.get(f"{_MODEL}/auth-check", auth_check),
        web.get(f"{_MODEL}/refs", references),
        web.get(f"{_MODEL}/tree/{{revision}}", tree),
        web.get(f"{_MODEL}/tree/{{revision}}/{{path:.+}}", tree),
        web.post(f"{_MODEL}/paths-info/{{revision}}", paths_info),
    ]


async def whoami(request: web.Request) -> web.Response:
    """Returns the user of a token."""
    asking = access.token(request)
    if asking is None:
        raise refusals.no_user()
    auth = {"type": "access_token", "accessToken": {"displayName": asking.user, "role": "read"}}
    return web.json_response({"type": "user", "name": asking.user, "orgs": [], "auth": auth})


async def auth_check(request: web.Request) -> web.Response:
    """Checks that the token may read the files of a repository."""
    access.may_read(request, access.repository(request))
    return web.json_response({})


async def model_info(request: web.Request) -> web.Response:
    """Returns a repository at one revision. The query `blobs` adds sizes and hashes."""
    stored = access.repository(request)
    revision = access.revision(request, stored)
    with_blobs = request.query.get("blobs", "").lower() in {"true", "1"}
    owner = stored.name.partition("/")[0]
    return web.json_response(
        {
            "_id": revision.commit[:24],
            "id": stored.name,
            "modelId": stored.name,
            "author": owner,
            "sha": revision.commit,
            "private": False,
            "gated": "auto" if stored.gated else False,
            "disabled": False,
            "tags": [],
            "siblings": [_sibling(file, with_blobs=with_blobs) for file in revision.files.values()],
            "usedStorage": sum(file.size for file in revision.files.values()),
        }
    )


async def references(request: web.Request) -> web.Response:
    """Returns the branches and tags of a repository."""
    stored = access.repository(request)

    def listed(kind: str, commits: dict[str, str]) -> list[dict[str, str]]:
        return [
            {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit} for name, commit in commits.items()
        ]

    return web.json_response(
        {
            "branches": listed("heads", stored.branches),
            "tags": listed("tags", stored.tags),
            "converts": [],
            "pullRequests": [],
        }
    )


async def tree(request: web.Request) -> web.Response:
    """Returns a page of the files and folders below a folder."""
    revision = access.revision(request, access.repository(request))
    folder = request.match_info.get("path", "").strip("/")
    if folder and folder not in revision.folders:
        raise refusals.entry_not_found(revision.commit)
    recursive = request.query.get("recursive", "").lower() in {"true", "1"}
    paths = [path for path in sorted({*revision.folders, *revision.files}) if _is_below(path, folder, recursive)]
    cursor = request.query.get("cursor", "0")
    if not cursor.isdecimal():
        raise refusals.Refusal(400, f"cursor: expected one from a Link header, found {cursor}")
    start = int(cursor)
    headers = {}
    if start + _PAGE < len(paths):
        following = request.url.update_query(cursor=start + _PAGE)
        headers["Link"] = f'<{following}>; rel="next"'
    return web.json_response([_entry(revision, path) for path in paths[start : start + _PAGE]], headers=headers)


async def paths_info(request: web.Request) -> web.Response:
    """Returns the files and folders with the given paths, without paths that do not exist."""
    revision = access.revision(request, access.repository(request))
    asked = [str(path).strip("/") for path in (await request.post()).getall("paths", [])]
    return web.json_response([_entry(revision, path) for path in asked if path in {*revision.folders, *revision.files}])


def _is_below(path: str, folder: str, recursive: bool) -> bool:
    if folder and not path.startswith(f"{folder}/"):
        return False
    return recursive or "/" not in path[len(folder) :].lstrip("/")


def _sibling(file: StoredFile, *, with_blobs: bool) -> dict[str, Any]:
    if not with_blobs:
        return {"rfilename": file.path}
    sibling: dict[str, Any] = {"rfilename": file.path, "size": file.size, "blobId": file.blob_id}
    if file.sha256 is not None:
        sibling["lfs"] = {
            "sha256": file.sha256,
            "size": file.size,
            "pointerSize": _pointer_size(file.sha256, file.size),
        }
    return sibling


def _entry(revision: Revision, path: str) -> dict[str, Any]:
    if path in revision.folders:
        return {"type": "directory", "path": path, "oid": revision.folders[path], "size": 0}
    file = revision.files[path]
    entry: dict[str, Any] = {"type": "file", "path": path, "oid": file.blob_id, "size": file.size}
    if file.sha256 is not None:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": _pointer_size(file.sha256, file.size)}
    return entry


def _pointer_size(sha256: str, size: int) -> int:
    return len(lfs_pointer(sha256, size))
