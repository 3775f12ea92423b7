"""Runs the hub on two ports, because the real hub serves files in LFS from another origin. Both share the faults."""

import asyncio
import signal
import uuid

from aiohttp import web
from aiohttp.typedefs import Handler

from lab.hub.answers import api, control, files, wheels
from lab.hub.answers.delivery import reset
from lab.hub.answers.refusals import Refusal
from lab.hub.faults import Answer, Commit, Etag, Html, Redirect, Reset, Status
from lab.hub.hub import HUB, PATH_LOG, Hub

_PORTAL = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in to use this network.</body></html>\n"


def hub_app(hub: Hub) -> web.Application:
    """Returns the app of the hub, package index and control API."""
    return _app(hub, [*control.routes(), *api.routes(), *wheels.routes(), *files.hub_routes()])


def storage_app(hub: Hub) -> web.Application:
    """Returns the app of the storage behind signed URLs."""
    return _app(hub, files.storage_routes())


async def serve(hub: Hub, *, host: str, port: int, storage_port: int) -> None:
    """Serves until SIGTERM or SIGINT. Prints one line when both ports listen."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runners = [_runner(storage_app(hub)), _runner(hub_app(hub))]
    try:
        hub.storage_port = await _listen(runners[0], host, storage_port)
        hub_port = await _listen(runners[1], host, port)
        print(f"hub listens on http://{host}:{hub_port}, storage on http://{host}:{hub.storage_port}", flush=True)
        await stop.wait()
    finally:
        for runner in runners:
            await runner.cleanup()


def _app(hub: Hub, routes: list[web.RouteDef]) -> web.Application:
    app = web.Application(middlewares=[_logged, _faulty, _refusing])
    app[HUB] = hub
    app.add_routes(routes)
    app.on_response_prepare.append(_finish_headers)
    return app


def _runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)


async def _listen(runner: web.AppRunner, host: str, port: int) -> int:
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return int(runner.addresses[0][1])


@web.middleware
async def _logged(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path.startswith(control.PREFIX):
        return await handler(request)
    log = request[PATH_LOG] = request.app[HUB].log.path(request.path)
    log.requests += 1
    status = 0
    try:
        response = await handler(request)
        if request.transport is not None and not request.transport.is_closing():
            status = response.status
    except web.HTTPException as error:
        status = error.status
        raise
    finally:
        log.answers[f"{request.method} {status}"] += 1
    return response


@web.middleware
async def _faulty(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path.startswith(control.PREFIX):
        return await handler(request)
    fault = request.app[HUB].faults.take_answer(request)
    return await handler(request) if fault is None else _answer(fault, request)


def _answer(fault: Answer, request: web.Request) -> web.Response:
    match fault:
        case Status():
            return web.Response(status=fault.status, headers=fault.headers, text=f"told to answer {fault.status}\n")
        case Html():
            return web.Response(text=_PORTAL, content_type="text/html")
        case Redirect():
            return web.Response(status=302, headers={"Location": fault.location})
        case Reset():
            reset(request)
            return web.Response()


@web.middleware
async def _refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        if request.path.startswith("/api/"):
            return web.json_response({"error": refusal.message}, status=refusal.status, headers=refusal.headers)
        return web.Response(status=refusal.status, text=refusal.message, headers=refusal.headers)


async def _finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["X-Request-Id"] = str(uuid.uuid4())
    faults = request.app[HUB].faults
    tags = [name for name in ("ETag", "X-Linked-ETag") if name in response.headers]
    if tags and (etag := faults.take(Etag, request)):
        response.headers.update(dict.fromkeys(tags, etag.etag))
    if "X-Repo-Commit" in response.headers and (commit := faults.take(Commit, request)):
        response.headers["X-Repo-Commit"] = commit.commit
