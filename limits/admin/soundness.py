"""The soundness of keys: finds wrong types and records that cannot be read, and says the fix.

Each stops its line at most (`tracking.errors.LimitsBroken`); until somebody mends it, that line
rests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from limits import keys
from limits.failure import is_broken, redis_asked
from tracking.line import Line

OF_LINE: Mapping[str, str] = {
    "calls_number": "string",
    "sec_calls": "string",
    "calls_leases": "zset",
    "call_starts": "zset",
    "wait_list": "list",
    "wait_list_automatic": "list",
    "wait_order": "hash",
    "wait_later": "zset",
    "wait_requests": "hash",
    "wait_inflight": "hash",
    "wait_unreadable": "hash",
    "wait_drainer": "string",
    "wait_list_activated": "string",
    "calls_paused": "string",
    "calls_held": "string",
    "calls_brake": "string",
    "calls_hour": "zset",
    "calls_day": "string",
    "counts": "hash",
}
"""The type of each key of a line, by its name in `keys.LineKeys`."""

OF_ALL: Mapping[str, str] = {
    keys.LINES: "set",
    keys.WORKERS: "zset",
    keys.MEASURED: "stream",
    keys.EPOCH: "string",
    keys.TO_ARCHIVE: "zset",
    keys.EVENTS: "stream",
    keys.TALLIED_SLUGS: "set",
}

BROKEN = "broken"
"""What binds a line of which a key or a record is not what it should be."""

TOLD_MOST = 10
"""Records of one line that are named."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw of a key, and what a person does about it. `line` is empty for one of all."""

    line: Line
    key: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}. {self.fix}"


async def flaws_of(redis: Redis, lines: Iterable[Line]) -> list[Flaw]:
    """Look at the keys of all and of these lines. Raises LimitsDown."""
    of_line = [
        (line, str(getattr(keys.of_line(line), name)), kind)
        for line in lines
        for name, kind in OF_LINE.items()
    ]
    wanted = [(Line(""), key, kind) for key, kind in OF_ALL.items()] + of_line
    pipeline = redis.pipeline(transaction=False)
    for _, key, _ in wanted:
        pipeline.type(key)
    with redis_asked():
        kinds = await pipeline.execute()
        found = [
            _wrong_type(line, key, str(kind), right)
            for (line, key, right), kind in zip(wanted, kinds, strict=True)
            if kind not in {right, "none"}
        ]
        named = [each.key for each in found]
        aside = [(line, key) for line, key, _ in of_line if key.startswith("wait_unreadable:")]
        return found + await _unreadable(redis, [each for each in aside if each[1] not in named])


async def busy_lines(redis: Redis) -> set[Line]:
    """All lines on which something waits or runs; none where that key itself is broken."""
    try:
        return {Line(str(name)) for name in await redis.smembers(keys.LINES)}
    except ResponseError as error:
        if not is_broken(error):
            raise
        return set()


def _wrong_type(line: Line, key: str, kind: str, right: str) -> Flaw:
    fix = f"Look at it, then move it away: redis-cli RENAME '{key}' 'broken:{key}'."
    return Flaw(line, key, f"{key} is a {kind}, not a {right}", fix)


async def _unreadable(redis: Redis, aside: Sequence[tuple[Line, str]]) -> list[Flaw]:
    pipeline = redis.pipeline(transaction=False)
    for _, key in aside:
        pipeline.hkeys(key)
    found = []
    for (line, key), fields in zip(aside, await pipeline.execute(), strict=True):
        if fields:
            some = ", ".join(map(str, fields[:TOLD_MOST]))
            what = f"{key} holds {len(fields):,} records that cannot be read ({some})"
            fix = (
                f"Correct the text where it stands (redis-cli HSET '{key}'), and the next sweep "
                f"puts it back into line; or put the requests again, then redis-cli DEL '{key}'."
            )
            found.append(Flaw(line, key, what, fix))
    return found
