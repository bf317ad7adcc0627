"""Jobs that the worker itself puts: drains, and requests for re-checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from service.tubes.commands import Placing
from service.tubes.connection import Patience
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, encode_drain, encode_request
from service.tubes.outlets import Outlets, batches
from tracking.line import Line
from tracking.request import TrackingRequest

PATIENCE = Patience(connect=1.0, reply=2.0)
"""Shorter than for reserves: every put behind this one waits as well."""

DRAIN = Placing(priority=0)
"""Before everything else in its tube, where only other drains are."""

RECHECK = Placing(priority=2**17)
"""Behind what producers put: nobody waits for a re-check."""

TOGETHER_MOST = 32
"""Jobs that are put in one go: a drain job waits for these, and each may be synced to a disk."""


class Putter:
    """Puts jobs on any server that takes them, in turn; for one event loop.

    A put that is repeated on another server may have worked on the first: both kinds of jobs may
    be there twice without harm.
    """

    def __init__(self, servers: Sequence[str], patience: Patience = PATIENCE) -> None:
        self._outlets = Outlets(servers, patience)

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
        for batch in batches(bodies, TOGETHER_MOST):
            await self._outlets.put(tube, batch, placing)

    def close(self) -> None:
        """Close the connections."""
        self._outlets.close()
