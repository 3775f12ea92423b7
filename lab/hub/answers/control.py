"""The lab's own door: tell faults, and ask what was requested. Faults do not strike here, and nothing is logged."""

from aiohttp import web
from pydantic import ValidationError

from lab.hub.faults import FAULT
from lab.hub.hub import HUB
from lab.hub.problems import problems

PREFIX = "/lab/"


def routes() -> list[web.RouteDef]:
    """The routes of the lab's door."""
    return [
        web.get(f"{PREFIX}faults", list_faults),
        web.post(f"{PREFIX}faults", arm_fault),
        web.delete(f"{PREFIX}faults", clear_faults),
        web.get(f"{PREFIX}requests", list_requests),
        web.delete(f"{PREFIX}requests", clear_requests),
    ]


async def list_faults(request: web.Request) -> web.Response:
    """All faults, each with the number of requests that it struck."""
    return web.json_response(request.app[HUB].faults.described())


async def arm_fault(request: web.Request) -> web.Response:
    """Add the fault that the body describes."""
    try:
        fault = FAULT.validate_json(await request.read())
    except ValidationError as error:
        return web.json_response({"error": problems(error, whole="fault")}, status=400)
    return web.json_response(request.app[HUB].faults.arm(fault).described(), status=201)


async def clear_faults(request: web.Request) -> web.Response:
    """Remove all faults."""
    request.app[HUB].faults.clear()
    return web.Response(status=204)


async def list_requests(request: web.Request) -> web.Response:
    """Requests and bytes by path."""
    return web.json_response(request.app[HUB].log.described())


async def clear_requests(request: web.Request) -> web.Response:
    """Start counting anew."""
    request.app[HUB].log.clear()
    return web.Response(status=204)
