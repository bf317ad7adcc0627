"""The first page: how parcels stand, and for operators what needs attention and what happened."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from service.operator.attention import used_up
from service.operator.connections import in_thread
from service.operator.dead import Filter, count
from service.operator.parcels import COUNTED_MOST, Narrow
from service.web.board import LASTS, Board
from service.web.frame import Page, View, view
from service.web.statistics import figures_of, requests_plot
from service.web.visitors import Visitor
from tracking.errors import StoreError

DAY = "day"


class Overview:
    """The first page, and what of it is live.

    Statistics are of all accounts, as lines and workers are: operators alone see them.
    """

    def __init__(self, board: Board) -> None:
        self._board = board

    def pages(self) -> list[Page]:
        """Name them."""
        attention = "/overview/attention"
        return [
            Page("GET", "/", self.show),
            Page("GET", "/overview/parcels", self.parcels, live=True),
            Page("GET", attention, self.attention, operators=True, live=True),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> View:
        """Show it."""
        whole, parcels = "overview/overview.html", self.parcels(request, visitor)
        if not visitor.operates:
            return view(whole, **(await parcels).values)
        looks = parcels, self.attention(request, visitor), self._happened()
        there, wrong, happened = await asyncio.gather(*looks)
        return view(whole, **there.values, **wrong.values, **happened)

    async def parcels(self, _: web.Request, visitor: Visitor) -> View:
        """Show how the account's parcels and quotas stand. Raises StoreError."""
        account = visitor.account
        kept = self._board.accounts
        uses = await kept.quotas(account)
        values: dict[str, Any] = {
            "quotas": [(each, use) for each, use in uses[account].items() if use.allowed],
            "used_up": list(used_up(uses)),
            "most": COUNTED_MOST,
        }
        try:
            looks = (kept.counts(account), kept.today(account))
            counts, today = await asyncio.gather(*looks)
        except (Narrow, StoreError) as error:
            values |= {"counts": None, "why": f"{error}"}
        else:
            values |= {"counts": counts, "today": today}
        return view("overview/parcels.html", **values)

    async def attention(self, _: web.Request, __: Visitor) -> View:
        """Show what needs attention first. Raises StoreError."""
        return view("overview/attention.html", concerns=await self._board.concerns())

    async def _happened(self) -> Mapping[str, Any]:
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
        figures, died_since = figures_of(found[DAY].total), f"{since:%Y-%m-%dT%H:%M}"
        return {"figures": figures, "plots": plots, "died": died, "died_since": died_since}
