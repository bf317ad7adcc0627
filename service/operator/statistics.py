"""Statistics of the last minutes, hours or days, in spans of equal length."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.admin.statistics import DAY, KEPT, TEN_MINUTES, TEN_SECONDS, Tallies
from limits.admin.view import View
from service.config.schema import Config
from service.operator.connections import Collections, collections_of, in_thread, redis_of
from service.worker.results.statistics import read_days
from tracking.operation import ENDS
from tracking.tally import CALLS_OF_NONE, MERGED, REFUSED, Tally

SPANS_MOST = 61
"""As many as can be drawn side by side: an hour in minutes, and the one that it begins in."""

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

DIGITS = 3
"""Of seconds: times are counted by bounds in ms, and read out of them with less than that."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one slug, or ("") of all, from `since` until `until` (Unix seconds).

    `spans` are `each_seconds` long, the oldest first. The newest one has not ended.
    """

    slug: str
    since: int
    until: int
    each_seconds: int
    spans: Sequence[Tally]

    @property
    def total(self) -> Tally:
        """All of it."""
        return _joined(self.spans)


async def statistics_of(
    config: Config, slug: str, last_seconds: float, most: int = SPANS_MOST
) -> Statistics:
    """Read what was counted of the last so many seconds, and before, from a span's beginning on.

    In so many spans at `most`. Raises LimitsDown, ResultsDown.
    """

    def kept_days(days: Sequence[int]) -> dict[int, Tally]:
        with collections_of(config) as stores:
            return read_days(stores.statistics, slug, days)

    async with redis_of(config) as redis:
        days = functools.partial(in_thread, kept_days)
        return await _statistics(redis, slug, last_seconds, days, most)


async def statistics_in(
    view: View, stores: Collections, slug: str, last_seconds: float
) -> Statistics:
    """As `statistics_of`, for a process that serves."""
    days = functools.partial(in_thread, read_days, stores.statistics, slug)
    return await _statistics(view.redis, slug, last_seconds, days, SPANS_MOST)


async def call_rates(view: View, slugs: Sequence[str], last_seconds: int) -> dict[str, list[float]]:
    """Read how many calls a second were over by 10 minutes, the oldest first. Raises LimitsDown."""
    tallies = Tallies(view.redis)
    now = await tallies.now()
    starts = range((now - last_seconds) // TEN_MINUTES * TEN_MINUTES, now + 1, TEN_MINUTES)
    found = await tallies.read([keys.ten_minutes(at, slug) for slug in slugs for at in starts])
    # Of the newest span only a part is over.
    lengths = [*[TEN_MINUTES] * (len(starts) - 1), max(1, now - starts[-1])]
    calls = iter(found)
    return {slug: [next(calls).calls / each for each in lengths] for slug in slugs}


Days = Callable[[Sequence[int]], Awaitable[Mapping[int, Tally]]]


async def _statistics(
    redis: Redis, slug: str, last_seconds: float, kept_days: Days, most: int
) -> Statistics:
    grain = _grain(slug, last_seconds)
    tallies = Tallies(redis)
    now = await tallies.now()
    starts = range(int(now - last_seconds) // grain * grain, now + 1, grain)
    if grain == TEN_SECONDS:
        found = await tallies.read([keys.ten_seconds(at) for at in starts])
    elif grain == TEN_MINUTES:
        found = await tallies.read([keys.ten_minutes(at, slug) for at in starts])
    else:
        found = await tallies.read([keys.day(at, slug) for at in starts])
        kept = await kept_days(starts)
        for at, own in zip(starts, found, strict=True):
            own.raise_to(kept.get(at, own))
    together = -(-len(found) // most)
    # The newest span is whole, so the oldest may be shorter.
    first = len(found) % together
    groups = [found[:first]] if first else []
    groups += [found[at : at + together] for at in range(first, len(found), together)]
    until = starts[-1] + grain
    return Statistics(slug, starts[0], until, grain * together, list(map(_joined, groups)))


def members(found: Statistics) -> dict[str, Any]:
    """Say all of it to machines."""
    first = found.until - len(found.spans) * found.each_seconds
    starts = range(first, found.until, found.each_seconds)
    return {
        "slug": found.slug or None,
        "since": moment_of(found.since),
        "until": moment_of(found.until),
        "each_seconds": found.each_seconds,
        "total": _figures(found.total),
        "spans": [
            {"at": moment_of(at), **_figures(each)}
            for at, each in zip(starts, found.spans, strict=True)
        ],
    }


def moment_of(seconds: int) -> dt.datetime:
    """Read Unix time."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _figures(tally: Tally) -> dict[str, Any]:
    """Say a tally: times in seconds, None where there were none."""
    names = (*sorted(map(str, ENDS)), *CALLS_OF_NONE, MERGED, *REFUSED)
    times = {"waited": tally.waited, "took": tally.took}
    return {
        "operations": tally.operations,
        "calls": tally.calls,
        **{name: tally.counts[name] for name in names},
        **{
            name: {word: _seconds(histogram.quantile(share)) for word, share in SHARES.items()}
            for name, histogram in times.items()
        },
    }


def _seconds(exact: float | None) -> float | None:
    return None if exact is None else round(exact, DIGITS)


def _grain(slug: str, last_seconds: float) -> int:
    """The shortest span in which so much time is kept."""
    if not slug and last_seconds <= KEPT[TEN_SECONDS]:
        return TEN_SECONDS
    return TEN_MINUTES if last_seconds <= KEPT[TEN_MINUTES] else DAY


def _joined(spans: Sequence[Tally]) -> Tally:
    made = Tally()
    for each in spans:
        made.join(each)
    return made
