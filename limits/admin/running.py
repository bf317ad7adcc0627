"""Running calls and live workers: lists of both, with the lease left on each call.

It reads what Redis holds anyway: the register of workers, records and leases.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.failure import redis_asked
from limits.workers import LIVES_SECONDS, WorkerInfo, is_gone, token_of
from tracking.line import Line, slug_of
from tracking.request import Number, anonymous_id

LINES_AT_ONCE = 50
"""Lines of one round trip: a line has 20 calls mostly, and each is a record to be sent."""

NEVER = -1
"""The revision of a worker that says none: it is older than all."""


@dataclass(slots=True)
class LiveWorker(WorkerInfo):
    """A worker process that was heard of, and how many calls it has in flight.

    `heard`: its last sign, Unix time in seconds by Redis' clock. `gone`: it was killed on the
    machine on which this is asked; who asks elsewhere sees it until it is forgotten.
    """

    calls: int = 0
    heard: float = field(default=0.0, compare=False)
    gone: bool = False


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


async def registered_workers(
    redis: Redis, now_ms: int, until_ms: float = math.inf
) -> list[dict[str, Any]]:
    """What workers tell of themselves that live at this time of Redis, by the end of it.

    `until_ms` is that end.
    """
    found: list[dict[str, Any]] = []
    live: Any = await redis.zrangebyscore(keys.WORKERS, f"({now_ms}", until_ms, withscores=True)
    for text, until in live:
        with suppress(ValueError):  # a person may have put anything there
            told = json.loads(str(text))
            if isinstance(told, dict) and "token" in told:
                found.append(told | {"until_ms": until})
    return found


async def late_workers(redis: Redis, revision: int) -> list[str]:
    """Name the live workers, "host pid", that do not go by rules of this revision yet.

    Raises LimitsDown. Those of a version that does not say by which it goes are among them.
    """
    with redis_asked():
        seconds, _ = await redis.time()
        live = await registered_workers(redis, seconds * 1000)
    # The newest of each worker counts: what it told before stays for a while.
    found = {each["token"]: each for each in live if "pid" in each}
    return sorted(
        f"{each['host']} {each['pid']}"
        for each in found.values()
        if each.get("revision", NEVER) < revision and not is_gone(json.dumps(each))
    )


async def live_workers(redis: Redis, now_ms: int) -> list[LiveWorker]:
    """All workers that live at this time of Redis, by host and age."""
    # What lies further ahead was noted before Redis' clock stepped back.
    most_ms = now_ms + round(LIVES_SECONDS * 1000)
    # The newest of each worker: one that is in trouble tells itself once more.
    found = {each["token"]: each for each in await registered_workers(redis, now_ms, most_ms)}
    calls = await _calls(redis, now_ms) if found else Counter[str]()
    # Of a worker of another version only what is known here.
    names = {each.name for each in fields(WorkerInfo)}
    workers = [
        LiveWorker(
            calls=calls[token],
            heard=each["until_ms"] / 1000 - LIVES_SECONDS,
            gone=is_gone(json.dumps(each)),
            **{name: each[name] for name in names & each.keys()},
        )
        for token, each in found.items()
    ]
    return sorted(workers, key=lambda each: (each.host, each.since, each.pid))


async def fitting_guards(redis: Redis) -> dict[str, int]:
    """The guards, in ms, that would be enough where the one that is set is not. Raises LimitsDown.

    By line, the widest that any worker measured which lives.
    """
    with redis_asked():
        seconds, _ = await redis.time()
        live = await registered_workers(redis, seconds * 1000)
    found: dict[str, int] = {}
    for line, guard_ms in chain.from_iterable(each.get("guards", {}).items() for each in live):
        found[line] = max(int(guard_ms), found.get(line, 0))
    return found


async def running_calls(redis: Redis) -> list[RunningCall]:
    """All calls in flight, the one that started first at the front. Raises LimitsDown."""
    with redis_asked():
        seconds, micros = await redis.time()
        now = int(seconds) + int(micros) / 1e6
        live = await registered_workers(redis, round(now * 1000))
        workers = {each["token"]: f"{each['host']} {each['pid']}" for each in live}
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


async def _calls(redis: Redis, now_ms: int) -> Counter[str]:
    """Count the calls in flight by the token of their worker."""
    pipeline = redis.pipeline(transaction=False)
    for line in await redis.smembers(keys.LINES):
        leases = keys.of_line(Line(str(line))).calls_leases
        pipeline.zrangebyscore(leases, f"({now_ms * 1000}", "+inf")
    return Counter(
        token_of(call_id) for call_ids in await pipeline.execute() for call_id in call_ids
    )
