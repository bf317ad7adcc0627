"""The worker processes that live, the calls in flight, and what waits in the tubes for them.

A worker that vanished is listed for LIVES_SECONDS behind its last sign; its calls, until a sweep
brings back their requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from service.operator.attention import NOBODY_LIVES
from service.operator.look import LIVES_SECONDS, older_than_this
from service.operator.statistics import moment_of
from service.web.board import Board
from service.web.frame import Frame, Page
from service.web.visitors import Visitor

CALLS_MOST = 200
"""Calls that a page lists; a thousand rows would be longer than a page may be."""

LATE_SECONDS = LIVES_SECONDS / 2
"""A worker that was not heard of for so long stands still, or its Redis does."""


class WorkerPages:
    """The page of workers."""

    def __init__(self, frame: Frame, board: Board) -> None:
        self._frame = frame
        self._board = board

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/workers", self.show, operators=True),
            self._frame.live(
                "/workers/now", "operators/workers_now.html", self._now, operators=True
            ),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Show who works, on what, and what the tubes hold. Raises StoreError."""
        values = await self._now(request, visitor)
        return self._frame.render(request, visitor, "operators/workers.html", **values)

    async def _now(self, _: web.Request, __: Visitor) -> Mapping[str, Any]:
        work, tubes = await asyncio.gather(self._board.at_work(), self._board.tubes())
        return {
            "tubes": tubes,
            "workers": [
                (each, moment_of(int(each.since)), max(0.0, time.time() - each.heard))
                for each in work.workers
            ],
            "nobody": NOBODY_LIVES,
            "worries": older_than_this(work.older),
            "late": LATE_SECONDS,
            "running": len(work.calls),
            "calls": work.calls[:CALLS_MOST],
            "more": max(0, len(work.calls) - CALLS_MOST),
        }
