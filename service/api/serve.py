"""The HTTP server: its routes, and its life until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from http import HTTPStatus
from pathlib import Path

import msgspec
from aiohttp import web

from service.api.problems import BODY_MOST, Problem, problems
from service.api.requests import RETRY_SECONDS, Requests
from service.client.catalogue import Catalogue
from service.client.door import Door, open_door
from service.config.address import host_and_port
from service.config.schema import Config
from service.observe.collector import calm_the_collector
from service.observe.events import Event
from service.observe.log import emit

STOP_SECONDS = 15.0
"""How long requests that run may still take after SIGTERM: longer than a server is waited for."""


def serve(config: Config, listen: str, spool: Path) -> None:
    """Serve at `listen` until SIGTERM or SIGINT. Raises OSError where nobody can listen there."""
    asyncio.run(_serve(config, listen, spool))


async def _serve(config: Config, listen: str, spool: Path) -> None:
    stopped = _on_signals()
    async with contextlib.AsyncExitStack() as closing:
        door = open_door(config, spool)
        closing.push_async_callback(door.close)
        runner = web.AppRunner(
            application(door, Catalogue(config)),
            access_log=None,
            shutdown_timeout=STOP_SECONDS,
        )
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, *host_and_port(listen)).start()
        emptying = asyncio.create_task(door.empty_spool())
        closing.push_async_callback(_ended, emptying)
        standing = await door.standing()
        calm_the_collector()
        emit(Event.DOOR_OPEN, server=listen, spooled=standing.spooled)
        await stopped.wait()
    emit(Event.DOOR_CLOSED, server=listen)


def application(door: Door, catalogue: Catalogue) -> web.Application:
    """Make the application, with all of its routes."""
    made = web.Application(middlewares=[problems], client_max_size=BODY_MOST)
    made.router.add_post("/v1/requests", Requests(door, catalogue).post)
    made.router.add_get("/livez", _lives)

    async def readiness(_: web.Request) -> web.Response:
        return await _ready(door)

    made.router.add_get("/readyz", readiness)
    return made


async def _lives(_: web.Request) -> web.Response:
    return _json({"alive": True})


async def _ready(door: Door) -> web.Response:
    """Tell whether a request that comes now would be taken, and how."""
    standing = await door.standing()
    said = {"tubes": standing.tubes, "spool": standing.spool, "spooled": standing.spooled}
    if standing.ready:
        return _json({"ready": True, **said})
    raise Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing durable can be reached",
        {"Retry-After": str(RETRY_SECONDS)},
        **said,
    )


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _on_signals() -> asyncio.Event:
    """The first signal stops in good order, another one at once."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopped
