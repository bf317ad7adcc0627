"""Statistics of an hour, a day and a month as plots and tables, of one courier or of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web
from markupsafe import Markup

from service.operator.statistics import SHARES, Statistics, moment_of
from service.web.board import LASTS, Board
from service.web.frame import Answer, Page, view
from service.web.plots import Bar, bars
from service.web.visitors import Visitor
from tracking.errors import MalformedJob
from tracking.tally import CALLS_OF_NONE, MERGED, REFUSED, Histogram, Tally

DAY = 86_400


class Plot(NamedTuple):
    """A plot, and its values as a table for those who cannot see it."""

    title: str
    drawn: Markup
    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Figures(NamedTuple):
    """What a tally comes to. `saved`: calls that requests did not need, for one of `whys`."""

    requests: int
    calls: int
    saved: int
    failures: int
    retries: int
    whys: Sequence[tuple[str, int]]


class StatisticsPages:
    """The page of statistics."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def pages(self) -> list[Page]:
        """Name it."""
        return [Page("GET", "/statistics", self.show, operators=True)]

    async def show(self, request: web.Request, _: Visitor) -> Answer:
        """Show statistics. Raises StoreError."""
        slug, wrong, last = "", "", last_of(request)
        if named := request.query.get("slug", "").strip():
            try:
                slug = self._board.catalogue.resolve(named)[0]
            except MalformedJob as error:
                wrong = error.detail
        found = await self._board.statistics(slug, last)
        total = found.total
        return view(
            "operators/statistics.html",
            HTTPStatus.OK,
            slug=slug or named,
            wrong=wrong,
            last=last,
            lasts={each: f"last {each}" for each in LASTS},
            slugs=self._board.catalogue.slugs,
            found=found,
            since=moment_of(found.since),
            figures=figures_of(total),
            times=[("waited", _times(total.waited)), ("call", _times(total.took))],
            plots=plots_of(found),
        )


def last_of(request: web.Request) -> str:
    """Read of which time statistics are asked for."""
    last = request.query.get("last", "day")
    return last if last in LASTS else "day"


def figures_of(tally: Tally) -> Figures:
    """Say what a tally comes to."""
    counts = tally.counts
    saved = {
        "joined another request": counts[MERGED],
        "took an answer that was fresh, or another's": tally.shared,
        "cancelled in time": counts["CANCELLED"],
    }
    others = {name.replace("_", " "): counts[name] for name in (*CALLS_OF_NONE, *REFUSED)}
    return Figures(
        requests=tally.operations + counts[MERGED],
        calls=tally.calls,
        saved=sum(saved.values()),
        failures=counts["ERROR"],
        retries=counts["repeated"],
        whys=[(name, each) for name, each in (saved | others).items() if each],
    )


def plots_of(found: Statistics) -> list[Plot]:
    """Draw requests that ended, calls, and how long requests waited."""
    calls, waited = ("#calls", "#of them to be repeated"), "Seconds waited, 95 of 100 at most"
    return [
        requests_plot(found),
        _counted(found, "Calls", calls, lambda t: (t.calls, t.counts["repeated"])),
        _counted(found, waited, ("#seconds",), lambda t: (_p95(t), 0.0), form="{:.2f}"),
    ]


def requests_plot(found: Statistics) -> Plot:
    """Draw requests that ended, the failures among them at the foot of each bar."""
    title, headers = "Requests that ended", ("#requests", "#of them failed")
    return _counted(found, title, headers, lambda t: (t.operations, t.counts["ERROR"]))


def _counted(
    found: Statistics,
    title: str,
    headers: tuple[str, ...],
    figure: Callable[[Tally], tuple[float, float]],
    form: str = "{:,}",
) -> Plot:
    pairs = list(zip(_names(found), map(figure, found.spans), strict=True))
    drawn = bars(title, [Bar(name, *values) for name, values in pairs])
    rows = [
        (name, *(form.format(each) for each in values[: len(headers)])) for name, values in pairs
    ]
    return Plot(title, drawn, ("from (UTC)", *headers), rows)


def _names(found: Statistics) -> list[str]:
    """Name each span by the time at which it begins."""
    form = "%d %b" if found.each_seconds >= DAY else "%H:%M"
    if found.each_seconds < DAY <= found.until - found.since:
        form = "%d %b %H:%M"
    first = found.until - len(found.spans) * found.each_seconds
    starts = range(first, found.until, found.each_seconds)
    return [f"{moment_of(at):{form}}" for at in starts]


def _p95(tally: Tally) -> float:
    return round(tally.waited.quantile(SHARES["p95"]) or 0.0, 2)


def _times(histogram: Histogram) -> list[float | None]:
    return [histogram.quantile(share) for share in SHARES.values()]
