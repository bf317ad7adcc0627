"""What each place tells of how operations ended: every grain in Redis, and the days in MongoDB.

Longer spans are made now, so that they hold the last minutes as well: that may be repeated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from redis.asyncio import Redis

from chaos.arena import Arena
from limits import keys
from limits.admin.statistics import Tallies
from service.worker.results.statistics import save_days
from tracking.tally import Day, tally_of

TOTALS = "totals"
"""The two counters that never end; of what was cancelled there is none."""

PREFIXES = {"10 s": "stats1", "10 min": "stats2", "day": "stats3"}


def tallies(arena: Arena) -> dict[tuple[str, str], dict[str, int]]:
    """By (place, slug), "" being all, how many operations ended how, and what else happened."""
    days = asyncio.run(_days_made(arena))
    slugs = ["", *(courier.slug for courier in arena.scale.couriers)]
    found: dict[tuple[str, str], dict[str, int]] = {}
    with arena.redis() as client, arena.bucket() as bucket:
        save_days(bucket["statistics"], days)
        for place, kind in PREFIXES.items():
            for slug in slugs if place != "10 s" else [""]:
                names = client.keys(f"tracking:{kind}:{slug and f'{slug}:'}[0-9]*")
                found[place, slug] = dict(tally_of(map(client.hgetall, names)).counts)
        successes, errors = client.mget("tracking:stats:successes", "tracking:stats:errors")
        found[TOTALS, ""] = {"SUCCESS": int(successes or 0), "ERROR": int(errors or 0)}
        for slug in slugs:
            told = bucket["statistics"].find({"slug": slug or None, "service": None})
            found["MongoDB", slug] = dict(
                sum((Counter(each["counts"]) for each in told), Counter())
            )
    return found


async def _days_made(arena: Arena) -> Sequence[Day]:
    with arena.redis() as client:
        client.delete(keys.SPANS_MADE)
        address = client.connection_pool.connection_kwargs
    async with Redis(host=address["host"], port=address["port"], decode_responses=True) as redis:
        return (await Tallies(redis).make_spans()).days
