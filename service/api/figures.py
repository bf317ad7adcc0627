"""`/metrics`: what a process that serves HTTP tells Prometheus. For operators only."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from service.api.callers import Callers
from service.api.exchange import About, Route
from service.client.catalogue import Catalogue
from service.client.door import Door
from service.client.figures import figures_of_door, figures_of_lines, figures_of_violations
from service.client.keys import Scope
from service.client.operations import Operations
from service.observe.counts import Counts
from service.observe.exposition import CONTENT_TYPE, text
from service.observe.metrics import HTTP_TIMES, REQUESTS, By

_NONE = "other"


class FigureRoutes:
    """The route, and what it counts of all others."""

    def __init__(
        self, door: Door, operations: Operations | None, catalogue: Catalogue, callers: Callers
    ) -> None:
        self._counts = Counts()
        self._door = door
        self._operations = operations
        self._couriers = catalogue.slugs
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name it."""
        return [Route("GET", "/metrics", self.figures, _METRICS)]

    def note(self, request: web.Request, status: int, began: float) -> None:
        """Count a request that was answered; it `began` at this time of `time.monotonic()`."""
        resource = request.match_info.route.resource
        # What clients call methods and paths that there are not is theirs, and without end.
        method, route = (_NONE, _NONE) if resource is None else (request.method, resource.canonical)
        self._counts.add((REQUESTS.name, method, route, str(status)))
        self._counts.time(HTTP_TIMES.name, route, round((time.monotonic() - began) * 1e6))

    async def figures(self, request: web.Request) -> web.Response:
        """Tell everything. Raises Problem."""
        self._callers.operator(request)
        kinds, standing = {By.DOOR}, await figures_of_door(self._door)
        if self._operations is not None:
            kinds.add(By.API)
            standing |= await figures_of_lines(self._operations.standings, self._couriers)
            standing |= figures_of_violations(self._operations.violations)
        # Of a thousand lines it takes a while, in which others want their replies.
        body = await asyncio.to_thread(text, kinds, self._counts, standing)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


_METRICS = About(
    "Tell Prometheus how this process and the lines do.",
    Scope.ADMIN,
    {200: str},
    (404,),
    gives=("text/plain",),
)
