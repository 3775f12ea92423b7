"""The control API: adds faults and reads the request log. Its own requests are not logged and have no faults."""

from aiohttp import web
from pydantic import ValidationError

from lab.hub.faults import FAULT
from lab.hub.hub import HUB
from lab.hub.problems import problems

PREFIX = "/lab/"


def routes() -> list[web.RouteDef]:
    """Returns the routes of the control API."""
    return [
        web.get(f"{PREFIX}faults", list_faults),
        web.post(f"{PREFIX}faults", arm_fault),
        web.delete(f"{PREFIX}faults", clear_faults),
        web.get(f"{PREFIX}requests", list_requests),
        web.delete(f"{PREFIX}requests", clear_requests),
    ]


async def list_faults(request: web.Request) -> web.Response:
    """Returns all faults, each with the number of affected requests."""
    return web.json_response(request.app[HUB].faults.described())


async def arm_fault(request: web.Request) -> web.Response:
    """Adds the fault in the body."""
    try:
        fault = FAULT.validate_json(await request.read())
    except ValidationError as error:
        return web.json_response({"error": problems(error, whole="fault")}, status=400)
    return web.json_response(request.app[HUB].faults.arm(fault).described(), status=201)


async def clear_faults(request: web.Request) -> web.Response:
    """Removes all faults."""
    request.app[HUB].faults.clear()
    return web.Response(status=204)


async def list_requests(request: web.Request) -> web.Response:
    """Returns requests and bytes by path."""
    return web.json_response(request.app[HUB].log.described())


async def clear_requests(request: web.Request) -> web.Response:
    """Resets the counters."""
    request.app[HUB].log.clear()
    return web.Response(status=204)
