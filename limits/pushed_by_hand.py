"""Where numbers stand that somebody pushed by hand: they have no record that keeps their place.

A script that looked for them would hold up Redis, so the lists are read here, page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from redis.asyncio import Redis

from limits import keys
from tracking.line import Line
from tracking.request import Number

READ_AT_ONCE = 10_000
"""Entries of a page, or records: Redis is busy with them for less than a millisecond."""

Places = tuple[Sequence[int], Sequence[int]]
"""Positions of a number in the MANUAL and in the AUTOMATIC list (lua/lib/lists.lua)."""

NOWHERE: Final[Places] = ((), ())

_PAGE = """
return { redis.call('HGET', KEYS[2], ARGV[1]), redis.call('LLEN', KEYS[1]),
  redis.call('LRANGE', KEYS[1], ARGV[2], ARGV[3]) }
"""
"""At one instant, and not in a transaction: a full Redis may refuse all of one."""


async def places_of(redis: Redis, line: Line, numbers: Iterable[Number]) -> Mapping[Number, Places]:
    """Find those of `numbers` that were pushed by hand, and where they stand."""
    names = keys.of_line(line)
    wanted = await _without_record(redis, names, list(dict.fromkeys(numbers)))
    if not wanted:
        return {}
    manual = await _positions(redis, names.wait_list, "manual", wanted, names)
    automatic = await _positions(redis, names.wait_list_automatic, "automatic", wanted, names)
    found = [number for number in wanted if number in manual or number in automatic]
    return {n: (sorted(manual.get(n, ())), sorted(automatic.get(n, ()))) for n in found}


async def _without_record(
    redis: Redis, names: keys.LineKeys, numbers: Sequence[Number]
) -> set[Number]:
    without: set[Number] = set()
    for begin in range(0, len(numbers), READ_AT_ONCE):
        part = numbers[begin : begin + READ_AT_ONCE]
        records = await redis.hmget(names.wait_requests, part)
        without |= {number for number, record in zip(part, records, strict=True) if not record}
    return without


async def _positions(
    redis: Redis, key: str, field: str, wanted: set[Number], names: keys.LineKeys
) -> dict[Number, set[int]]:
    """Read from the end on: what is taken from the head meanwhile moves nothing then."""
    found: dict[Number, set[int]] = {}
    behind, entries = 0, [""]
    while entries:
        page = (field, str(-behind - READ_AT_ONCE), str(-behind - 1))
        first, length, entries = await redis.eval(_PAGE, 2, key, names.wait_order, *page)
        begin = int(first or 0) + length - behind - len(entries)
        for position, entry in enumerate(entries, begin):
            if entry in wanted:
                found.setdefault(Number(entry), set()).add(position)
        behind += READ_AT_ONCE
    return found
