"""The lines of couriers: what waits, runs and binds; paused, resumed, their limits changed.

And the worker processes that live, the calls in flight, and what waits in the tubes for them. A
worker that vanished is listed for LIVES_SECONDS behind its last sign; its calls, until a sweep
brings back their requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web
from markupsafe import Markup

from service.http.exchange import Problem, malformed
from service.http.reading import courier_of
from service.operator.attention import NO_CREDENTIALS, NOBODY_LIVES, STOPPED, why_bound
from service.operator.limits import SETTABLE, check_together, named_limits, read_wishes
from service.operator.look import LIVES_SECONDS, LineSnapshot, older_than_this
from service.operator.pause import read_duration
from service.operator.statistics import moment_of
from service.web.board import LASTS, Board
from service.web.frame import NOTHING, Answer, Page, View, moving, see_other, view
from service.web.plots import sparkline
from service.web.statistics import last_of, plots_of
from service.web.visitors import Visitor, fields_of
from tracking.errors import MalformedJob
from tracking.request import Slug

REASON_MOST = 200
OF_LINE_MOST = 100
CALLS_MOST = 200
"""Calls in flight that a page lists: of one line, and of all."""

LATE_SECONDS = LIVES_SECONDS / 2
"""A worker that was not heard of for so long stands still, or its Redis does."""

LENGTHS = ("15m", "1h", "4h", "1d")
"""Of a pause, offered beside others."""


class Row(NamedTuple):
    """A line as it is listed."""

    line: LineSnapshot
    badge: str
    why: str
    spark: Markup | str
    slug: Slug | None


class LinePages:
    """The pages of all lines, and of each."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def pages(self) -> list[Page]:
        """Name them."""
        one = "/lines/{slug}"
        return [
            *moving("/lines", "operators/lines", self._all, operators=True),
            Page("GET", one, self.show, operators=True),
            Page("GET", f"{one}/now", self.show_now, operators=True, live=True),
            Page("POST", f"{one}/pause", self.pause, operators=True),
            Page("POST", f"{one}/resume", self.resume, operators=True),
            Page("POST", f"{one}/limits", self.change_limits, operators=True),
            Page("POST", f"{one}/limits/reset", self.reset_limits, operators=True),
        ]

    async def show_now(self, request: web.Request, _: Visitor) -> View:
        """Show what of a line moves. Raises Problem, StoreError."""
        return view("operators/line_now.html", **await self._one(request))

    async def pause(self, request: web.Request, visitor: Visitor) -> Answer:
        """Let nobody call a courier. Raises Problem, StoreError."""
        slug, form = courier_of(request, self._board.catalogue), await fields_of(request)
        length, why, wrong = form["length"].strip(), form["reason"].strip(), {}
        try:
            seconds = read_duration(length) if length else None
        except ValueError as error:
            wrong["length"] = f"{error}"
        if len(why) > REASON_MOST:
            wrong["reason"] = f"{REASON_MOST} characters at most"
        if wrong:
            return await self.show(request, visitor, wrong, form)
        await self._board.operators.pause(visitor.operator, slug, seconds, why)
        return self._back(slug, f"{slug} is paused.")

    async def resume(self, request: web.Request, visitor: Visitor) -> Answer:
        """Let a courier be called again. Raises Problem, StoreError."""
        slug = courier_of(request, self._board.catalogue)
        await self._board.operators.resume(visitor.operator, slug)
        return self._back(slug, f"{slug} may be called again.")

    async def change_limits(self, request: web.Request, visitor: Visitor) -> Answer:
        """Set those limits that were changed in the form. Raises Problem, StoreError."""
        slug, form = courier_of(request, self._board.catalogue), await fields_of(request)
        operators, who = self._board.operators, visitor.operator
        given = {name: form[name].strip() for name in SETTABLE if name in form}
        now = (await operators.limits(who, slug)).in_force
        words = [f"{name}={text or 'none'}" for name, text in given.items()]
        try:
            wishes = {name: each for name, each in read_wishes(words).items() if each != now[name]}
            check_together(operators.config, slug, wishes)
        except ValueError as error:
            return await self.show(request, visitor, {"limits": f"{error}"}, given)
        if not wishes:
            return self._back(slug, "The limits are as they were.")
        await operators.limits(who, slug, wishes)
        return self._back(slug, f"The limits of {slug} are changed: new calls go by them.")

    async def reset_limits(self, request: web.Request, visitor: Visitor) -> Answer:
        """Let the file hold again for one limit, or for all. Raises Problem, StoreError."""
        slug, name = courier_of(request, self._board.catalogue), (await fields_of(request))["name"]
        try:
            names = named_limits([name] if name else [])
        except ValueError as error:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}") from error
        await self._board.operators.limits(visitor.operator, slug, names)
        which = name.replace("_", " ") or "all limits"
        return self._back(slug, f"config.toml holds again for {which}.")

    async def show(
        self,
        request: web.Request,
        visitor: Visitor,
        wrong: Mapping[str, str] = NOTHING,
        given: Mapping[str, str] = NOTHING,
    ) -> View:
        """Show a line. Raises Problem, StoreError."""
        values = await self._one(request)
        slug: Slug | None = values["row"].slug
        last = last_of(request)
        limits = slug and await self._board.operators.limits(visitor.operator, slug)
        plots = plots_of(await self._board.statistics(slug, last)) if slug else []
        return view(
            "operators/line.html",
            wrong=wrong,
            given=given,
            limits=limits,
            plots=plots,
            last=last,
            lasts=list(LASTS),
            lengths=LENGTHS,
            lacking=self._board.catalogue.lacking(slug) if slug else "",
            **values,
        )

    async def _all(self, _: web.Request, __: Visitor) -> Mapping[str, Any]:
        found = await self._board.lines()
        rates = await self._board.rates(tuple(each.line for each in found.told))
        rows = [self._row(each, rates.get(each.line, [])) for each in found.told]
        known = self._board.catalogue
        lacking = [(slug, each) for slug in known.slugs if (each := known.lacking(slug))]
        return {"rows": rows, "worries": found.worries, "lacking": lacking}

    async def _one(self, request: web.Request) -> Mapping[str, Any]:
        named = request.match_info["slug"]
        try:
            line = await self._board.line(named)
        except MalformedJob as error:
            raise malformed(error, HTTPStatus.NOT_FOUND) from error
        calls = [each for each in (await self._board.at_work()).calls if each.line == line.line]
        rates = await self._board.rates((line.line,))
        return {
            "row": self._row(line, rates[line.line]),
            "calls": calls[:OF_LINE_MOST],
            "more": max(0, len(calls) - OF_LINE_MOST),
        }

    def _row(self, line: LineSnapshot, rates: Sequence[float]) -> Row:
        slug = Slug(line.line) if Slug(line.line) in self._board.catalogue.slugs else None
        most = max(rates, default=0.0)
        title = f"calls a second in the last 4 hours, {most:.2g} at most of {line.per_second}"
        spark = sparkline(title, rates) if most else ""
        return Row(line, _badge(line), why_bound(line).removeprefix("paused "), spark, slug)

    def _back(self, slug: Slug, done: str) -> Answer:
        self._board.changed()
        return see_other(f"/lines/{slug}", done=done)


class WorkerPages:
    """The page of workers."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def pages(self) -> list[Page]:
        """Name them."""
        return moving("/workers", "operators/workers", self._values, operators=True)

    async def _values(self, _: web.Request, __: Visitor) -> Mapping[str, Any]:
        """Find who works, on what, and what the tubes hold. Raises StoreError."""
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


def _badge(line: LineSnapshot) -> str:
    """Name what binds a line by the style sheet's words."""
    if line.bound_by in STOPPED:
        return "error" if line.paused_why == NO_CREDENTIALS else "paused"
    if line.bound_by in {"broken", "no_worker", "not_configured"}:
        return "error"
    return "waiting" if line.bound_by else "delivered"
