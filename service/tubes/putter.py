"""Jobs that the worker itself puts: drains, and requests for re-checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from service.tubes.connection import Connection, Patience, Placing, PutRefused
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, encode_drain, encode_request
from tracking.errors import TubesDown
from tracking.request import Slug, TrackingRequest

AVOIDED = 5.0
"""Seconds for which a server that is away or refuses is not asked again."""

PATIENCE = Patience(connect=1.0, reply=2.0)
"""Shorter than for reserves: every put behind this one waits as well."""

DRAIN = Placing(priority=0)
"""Before everything else in its tube, where only other drains are."""

RECHECK = Placing(priority=2**17)
"""Behind what producers put: nobody waits for a re-check."""


class Putter:
    """Puts jobs on any server that takes them, in turn; safe to call from one event loop.

    A put that is repeated on another server may have worked on the first: both kinds of jobs may
    be there twice without harm.
    """

    def __init__(self, servers: Sequence[str], patience: Patience = PATIENCE) -> None:
        self._outlets = [_Outlet(server, patience) for server in servers]
        self._thread = ThreadPoolExecutor(1, "putter")
        self._next = 0

    async def put_drain(self, slug: Slug) -> None:
        """Ask for somebody to drain `slug`. Raises TubesDown: no server took the job."""
        await self.put(DRAINS_TUBE, encode_drain(slug), DRAIN)

    async def put_request(self, request: TrackingRequest, placing: Placing = RECHECK) -> None:
        """Put a request. Raises TubesDown: no server took the job."""
        await self.put(REQUESTS_TUBE, encode_request(request), placing)

    async def put(self, tube: str, body: bytes, placing: Placing) -> None:
        """Put any job. Raises TubesDown: no server took it."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._put, tube, body, placing)

    def close(self) -> None:
        """Close the connections; a put that runs just now still ends."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _put(self, tube: str, body: bytes, placing: Placing) -> None:
        self._next += 1
        count = len(self._outlets)
        errors: list[TubesDown] = []
        for turn in range(count):
            outlet = self._outlets[(self._next + turn) % count]
            try:
                return outlet.put(tube, body, placing)
            except TubesDown as error:
                errors.append(error)
        raise TubesDown("; ".join(each.message for each in errors), errors[-1].fix)

    def _close(self) -> None:
        for outlet in self._outlets:
            outlet.close()


class _Outlet:
    """One server to put on, with at most one connection."""

    def __init__(self, server: str, patience: Patience) -> None:
        self._server = server
        self._patience = patience
        self._connection: Connection | None = None
        self._avoid_until = 0.0
        self._error = TubesDown("not asked yet")

    def put(self, tube: str, body: bytes, placing: Placing) -> None:
        if time.monotonic() < self._avoid_until:
            raise TubesDown(self._error.message, self._error.fix)
        try:
            if not self._put_on_open_connection(tube, body, placing):
                self._connection = Connection.open(self._server, tube, self._patience)
                self._connection.put(tube, body, placing)
        except TubesDown as error:
            self._error = error
            self._avoid_until = time.monotonic() + AVOIDED
            raise

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def _put_on_open_connection(self, tube: str, body: bytes, placing: Placing) -> bool:
        """Whether that worked; the server may have been restarted since the last put."""
        if self._connection is None or not self._connection.alive:
            return False
        try:
            self._connection.put(tube, body, placing)
        except PutRefused:
            raise
        except TubesDown:
            return False
        return True
