"""`stats`: what happened lately, drawn in columns of time."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence

from service.console import settings
from service.console.arguments import Exit, Options, Parser, add_json, lasting, named
from service.console.output import moment, say, say_json, span, table
from service.operator import catalogue, statistics
from tracking.operation import ENDS
from tracking.tally import CALLS_OF_NONE, MERGED, REFUSED, Histogram, Tally

LEVELS = "▁▂▃▄▅▆▇█"
MINUTE = 60.0

BESIDE_COLUMNS, LEAST_COLUMNS = 36, 10
"""Characters that stand before the columns; a terminal with no room for so many is too narrow."""

Figure = Callable[[Tally], float]


def stats_arguments(parser: Parser) -> None:
    """Add the arguments of `stats`."""
    text = "only of this courier; default: of all together"
    # Neither of the two may take back what the other one set.
    parser.set_defaults(slug=None)
    parser.add_argument(
        "slug", nargs="?", type=named, default=argparse.SUPPRESS, metavar="SLUG", help=text
    )
    parser.add_argument("--slug", type=named, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument(
        "--last",
        type=lasting,
        default=3_600.0,
        metavar="DURATION",
        help="so long, like 30m, 24h or 90d; default: 1h. Up to an hour is counted by 10 s, "
        "with SLUG and up to a week by 10 minutes, and more by days (UTC)",
    )
    add_json(parser)


def run_stats(options: Options) -> int:
    """Draw it; 1 when nothing happened."""
    config = settings.loaded(options).config
    slug = catalogue.Catalogue(config).resolve(options.slug)[0] if options.slug else ""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    columns = columns_for(width)
    found = asyncio.run(statistics.statistics_of(config, slug, options.last, columns))
    if options.json:
        say_json(statistics.members(found))
    else:
        _draw(found)
    return Exit.DONE if found.total.counts else Exit.NEGATIVE


def columns_for(width: int) -> int:
    """Tell how many columns of time can be drawn on a terminal of this width."""
    return min(statistics.SPANS_MOST, max(LEAST_COLUMNS, width - BESIDE_COLUMNS))


def _draw(found: statistics.Statistics) -> None:
    total, who = found.total, found.slug or "all couriers"
    say(f"{who}, {moment(found.since)} to {moment(found.until)}")
    if not total.counts:
        say("nothing happened in this time")
        return
    say(f"each column is {span(found.each_seconds)}, the newest at the right")
    say("")
    table(("", "total", "most", ""), [_row(found, *each) for each in _counted(total)])
    say("")
    rows = [_times(found, "waited", lambda t: t.waited), _times(found, "call", lambda t: t.took)]
    table(("", *statistics.SHARES, "p95 in each column"), rows)


def _counted(total: Tally) -> list[tuple[str, Figure]]:
    """What there is to count; of what can be absent, only what happened."""
    always: list[tuple[str, Figure]] = [
        *((end.value, lambda t, end=end: t.counts[end]) for end in sorted(ENDS)),
        ("calls", lambda t: t.calls),
    ]
    rare = (*CALLS_OF_NONE, MERGED, *REFUSED)
    named = [(name, lambda t, name=name: t.counts[name]) for name in rare if total.counts[name]]
    return [*always, *named]


def _row(found: statistics.Statistics, name: str, figure: Figure) -> list[str]:
    figures = [figure(each) for each in found.spans]
    return [name, f"{figure(found.total):,}", f"{max(figures):,}", _line(figures)]


def _times(
    found: statistics.Statistics, name: str, histogram: Callable[[Tally], Histogram]
) -> list[str]:
    whole = histogram(found.total)
    values = [_seconds(whole.quantile(share)) for share in statistics.SHARES.values()]
    return [
        name,
        *values,
        _line([histogram(t).quantile(statistics.SHARES["p95"]) or 0 for t in found.spans]),
    ]


def _line(figures: Sequence[float]) -> str:
    """Draw figures as a row of bars; blank where there is nothing."""
    most = max(figures, default=0)
    top = len(LEVELS) - 1
    return "".join(LEVELS[round(each / most * top)] if each else " " for each in figures)


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f} s" if value < MINUTE else span(value)
