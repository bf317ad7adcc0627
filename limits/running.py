"""Which calls run, and which began and never ended. Changes nothing.

All is read of what Redis holds anyway: the record of each call in flight, and its lease.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.failure import redis_asked
from limits.workers import names_of_workers, token_of
from tracking.line import Line, slug_of
from tracking.operation import anonymous_id
from tracking.request import Number

LINES_AT_ONCE = 50
"""Lines of one round trip: a line has 20 calls mostly, and each is a record to be sent."""


@dataclass(frozen=True, slots=True)
class RunningCall:
    """One call in flight. `started` is Unix time in seconds, by Redis' clock.

    `seconds`: since it started, 0 where that is still ahead. `lease_seconds`: how long its lease
    lasts; None: it is over, so its worker has vanished or hangs, and a sweep brings back the
    request. `operations`: the ids of the newest; `requests`: how many wait for the answer.
    `attempt`: 1 at the first one. `worker`: "host pid", or "" of one that is not heard of.
    """

    line: Line
    number: Number
    call: str
    started: float
    seconds: float
    lease_seconds: float | None
    operations: tuple[str, ...]
    requests: int
    attempt: int
    worker: str


async def running_calls(redis: Redis) -> list[RunningCall]:
    """All calls in flight, the one that started first at the front. Raises LimitsDown."""
    with redis_asked():
        seconds, micros = await redis.time()
        now = int(seconds) + int(micros) / 1e6
        workers = await names_of_workers(redis, round(now * 1000))
        lines = sorted(Line(str(name)) for name in await redis.smembers(keys.LINES))
        found: list[RunningCall] = []
        for begin in range(0, len(lines), LINES_AT_ONCE):
            part = lines[begin : begin + LINES_AT_ONCE]
            pipeline = redis.pipeline(transaction=False)
            for line in part:
                pipeline.hgetall(keys.of_line(line).wait_inflight)
                pipeline.zrange(keys.of_line(line).calls_leases, 0, -1, withscores=True)
            replies = await pipeline.execute()
            for line, calls, leases in zip(part, replies[::2], replies[1::2], strict=True):
                ends = {call: us / 1e6 for call, us in leases}
                found += _calls_of(line, calls, ends, workers, now)
    return sorted(found, key=lambda each: (each.started, each.call))


def _calls_of(
    line: Line,
    inflight: Mapping[str, str],
    ends: Mapping[str, float],
    workers: Mapping[str, str],
    now: float,
) -> Iterator[RunningCall]:
    """Read the records of one line's calls; = only names the call of a number, # a group."""
    for call, text in inflight.items():
        if call[0] in "=#":
            continue
        record = json.loads(text)
        started, lead = int(record["at"]) / 1e6, record.get("lead", call)
        left = ends.get(lead, 0.0) - now
        yield RunningCall(
            line=line,
            number=Number(record["n"]),
            call=call,
            started=started,
            seconds=max(0.0, now - started),
            lease_seconds=left if left > 0 else None,
            operations=_operations_in(line, record),
            requests=record.get("ids", 0) + _anonymous(record),
            attempt=record.get("tries", 0) + 1,
            worker=workers.get(token_of(call), ""),
        )


def _operations_in(line: Line, record: Mapping[str, Any]) -> tuple[str, ...]:
    """The newest ids, and that of the requests without one."""
    anonymous = record.get("anon")
    named = tuple(record.get("newest") or ())
    if not anonymous:
        return named
    return (*named, anonymous_id(slug_of(line), record["n"], anonymous["id"]))


def _anonymous(record: Mapping[str, Any]) -> int:
    """Count the requests without an id."""
    return int(record["anon"].get("count", 1)) if record.get("anon") else 0
