"""A package index over a directory of wheels (PEP 503), with hashes and ranges; `pip --require-hashes` works."""

import re
from html import escape
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from lab.hub.answers import refusals
from lab.hub.answers.delivery import deliver
from lab.hub.hub import HUB
from lab.hub.stored.content import DiskContent


def routes() -> list[web.RouteDef]:
    """Returns the routes of the index and the wheels."""
    return [
        web.get("/simple/", projects),
        web.get("/simple/{project}/", project),
        web.get("/wheels/{wheel}", wheel),
    ]


async def projects(request: web.Request) -> web.Response:
    """Lists all projects that have a wheel."""
    names = sorted({_project(path) for path in _wheels(request)})
    return _page([(f"/simple/{name}/", name) for name in names])


async def project(request: web.Request) -> web.Response:
    """Lists all wheels of a project."""
    name = _normalised(request.match_info["project"])
    digests = request.app[HUB].digests
    links = [
        (f"/wheels/{quote(path.name)}#sha256={digests.sha256(DiskContent(path))}", path.name)
        for path in _wheels(request)
        if _project(path) == name
    ]
    if not links:
        raise refusals.Refusal(404, f"no wheel of {name}")
    return _page(links)


async def wheel(request: web.Request) -> web.StreamResponse:
    """Sends a wheel."""
    name = request.match_info["wheel"]
    for path in _wheels(request):
        if path.name == name:
            content = DiskContent(path)
            return await deliver(request, content, etag=f'"{request.app[HUB].digests.sha256(content)}"')
    raise refusals.Refusal(404, f"no wheel {name}")


def _wheels(request: web.Request) -> list[Path]:
    directory = request.app[HUB].wheels
    return sorted(directory.glob("*.whl")) if directory is not None else []


def _project(path: Path) -> str:
    return _normalised(path.name.partition("-")[0])


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _page(links: list[tuple[str, str]]) -> web.Response:
    anchors = "\n".join(f'<a href="{escape(href)}">{escape(text)}</a><br>' for href, text in links)
    return web.Response(text=f"<!DOCTYPE html>\n<html><body>\n{anchors}\n</body></html>\n", content_type="text/html")
