"""The first page: how parcels stand, and for operators what needs attention and what happened."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from itertools import chain
from typing import Any

from aiohttp import web

from service.operator.attention import used_up
from service.operator.connections import in_thread
from service.operator.dead import Filter, count
from service.operator.parcels import COUNTED_MOST, Narrow
from service.web.board import LASTS, Board
from service.web.frame import Frame, Page
from service.web.statistics import figures_of, requests_plot
from service.web.visitors import Visitor
from tracking.errors import StoreError

DAY = "day"


class Overview:
    """The first page, and what of it is live.

    Statistics are of all accounts, as lines and workers are: operators alone see them.
    """

    def __init__(self, frame: Frame, board: Board) -> None:
        self._frame = frame
        self._board = board

    def pages(self) -> list[Page]:
        """Name them."""
        live = self._frame.live
        return [
            Page("GET", "/", self.show),
            live("/overview/parcels", "overview/parcels.html", self._parcels),
            live("/overview/attention", "overview/attention.html", self._attention, operators=True),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Show it."""
        parts = [self._parcels(request, visitor)]
        if visitor.operates:
            parts += [self._attention(request, visitor), self._happened()]
        values = dict(chain.from_iterable(each.items() for each in await asyncio.gather(*parts)))
        return self._frame.render(request, visitor, "overview/overview.html", **values)

    async def _parcels(self, _: web.Request, visitor: Visitor) -> Mapping[str, Any]:
        account = visitor.account
        uses = await self._board.accounts.quotas(account)
        values: dict[str, Any] = {
            "quotas": [(each, use) for each, use in uses[account].items() if use.allowed],
            "used_up": list(used_up(uses)),
            "most": COUNTED_MOST,
        }
        try:
            counts, today = await self._board.accounts.parcels(account)
        except (Narrow, StoreError) as error:
            return values | {"counts": None, "wrong": f"{error}"}
        return values | {"counts": counts, "today": today}

    async def _attention(self, _: web.Request, __: Visitor) -> dict[str, Any]:
        return {"concerns": await self._board.concerns()}

    async def _happened(self) -> dict[str, Any]:
        """Draw what happened; nothing where a server is away, of which `concerns` tells."""
        try:
            found = {last: await self._board.statistics("", last) for last in LASTS}
        except StoreError:
            return {"figures": None, "plots": []}
        plots = [
            requests_plot(each)._replace(title=f"Requests that ended in the last {last}")
            for last, each in found.items()
        ]
        since = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
        died = await in_thread(count, self._board.stores.dead, Filter(since=since), COUNTED_MOST)
        return {
            "figures": figures_of(found[DAY].total),
            "plots": plots,
            "died": died,
            "died_since": f"{since:%Y-%m-%dT%H:%M}",
        }
