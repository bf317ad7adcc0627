"""Jobs that the worker itself puts: drains, and requests for re-checks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from service.tubes.connection import Connection, Patience, Placing, PutRefused, batches
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, encode_drain, encode_request
from tracking.errors import TubesDown
from tracking.line import Line
from tracking.request import TrackingRequest

AVOIDED = 5.0
"""Seconds for which a server that is away or refuses is not asked again."""

PATIENCE = Patience(connect=1.0, reply=2.0)
"""Shorter than for reserves: every put behind this one waits as well."""

DRAIN = Placing(priority=0)
"""Before everything else in its tube, where only other drains are."""

RECHECK = Placing(priority=2**17)
"""Behind what producers put: nobody waits for a re-check."""


TOGETHER_MOST = 32
"""Jobs that are put in one go: a drain job waits for these, and each may be synced to a disk."""


class Putter:
    """Puts jobs on any server that takes them, in turn; safe to call from one event loop.

    A put that is repeated on another server may have worked on the first: both kinds of jobs may
    be there twice without harm.
    """

    def __init__(self, servers: Sequence[str], patience: Patience = PATIENCE) -> None:
        self._outlets = [_Outlet(server, patience) for server in servers]
        self._thread = ThreadPoolExecutor(1, "putter")
        self._next = 0

    async def put_drain(self, line: Line) -> None:
        """Ask for somebody to drain `line`. Raises TubesDown: no server took the job."""
        await self.put(DRAINS_TUBE, encode_drain(line), DRAIN)

    async def put_rechecks(self, requests: Iterable[TrackingRequest]) -> None:
        """Put requests. Raises TubesDown: no server took some of them."""
        await self.put_all(REQUESTS_TUBE, map(encode_request, requests), RECHECK)

    async def put(self, tube: str, body: bytes, placing: Placing) -> None:
        """Put any job. Raises TubesDown: no server took it."""
        await self.put_all(tube, [body], placing)

    async def put_all(self, tube: str, bodies: Iterable[bytes], placing: Placing) -> None:
        """Put jobs in few round trips. Raises TubesDown: no server took some of them."""
        loop = asyncio.get_running_loop()
        for batch in batches(bodies, TOGETHER_MOST):
            await loop.run_in_executor(self._thread, self._put, tube, batch, placing)

    def close(self) -> None:
        """Close the connections; a put that runs just now still ends."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> None:
        self._next += 1
        count = len(self._outlets)
        errors: list[TubesDown] = []
        for turn in range(count):
            outlet = self._outlets[(self._next + turn) % count]
            bodies = outlet.put(tube, bodies, placing)
            if not bodies:
                return
            errors.append(outlet.error)
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
        self.error = TubesDown("not asked yet")

    def put(self, tube: str, bodies: Sequence[bytes], placing: Placing) -> Sequence[bytes]:
        """Put jobs; gives those that it did not take, and `error` says why."""
        if time.monotonic() < self._avoid_until:
            return bodies
        try:
            results = self._put(tube, bodies, placing)
        except TubesDown as error:
            left, self.error = bodies, error
        else:
            refused = [each for each in results if isinstance(each, PutRefused)]
            if not refused:
                return ()
            pairs = zip(bodies, results, strict=True)
            left = [body for body, result in pairs if isinstance(result, PutRefused)]
            self.error = refused[0]
        self._avoid_until = time.monotonic() + AVOIDED
        return left

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def _put(
        self, tube: str, bodies: Sequence[bytes], placing: Placing
    ) -> Sequence[int | PutRefused]:
        if self._connection is not None and self._connection.alive:
            with suppress(TubesDown):  # it may have been restarted since the last put
                return self._connection.put(tube, bodies, placing)
        self._connection = Connection.open(self._server, tube, self._patience)
        return self._connection.put(tube, bodies, placing)
