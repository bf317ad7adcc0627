"""How long each script keeps Redis busy where one courier has a long line, by Redis' slow log.

The line is written as admission writes it, a list of MANUAL and one of AUTOMATIC requests, each of
the full length. Then everything is asked that may be asked of it, as a worker and people ask it:
many steps at once, of numbers anywhere in the line. At last somebody deletes the lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

from redis.asyncio import Redis

from benchmarks.table import Value
from limits import keys
from limits.cancelling import Canceller, Wanted
from limits.clock import Clock
from limits.connect import RedisAddress, open_redis
from limits.epoch import Epoch
from limits.forgetting import Forgetter
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import Rules
from tracking.call import Call, Setback, Verdict
from tracking.line import courier_line
from tracking.operation import State
from tracking.request import Number, Origin, Slug, TrackingRequest

SLUG = Slug("bench-long")
LINE = courier_line(SLUG)
NAMES = keys.of_line(LINE)
RULES = Rules(concurrent=100_000, per_second=1_000_000, guard_ms=0, max_waiting=10_000_000)
NOW = Setback("results_down")
ANSWER = Verdict(State.SUCCESS, {})

WRITTEN_AT_ONCE = 20_000
ASKED = 1_000
"""Of each kind."""

LOGGED_US = 100

RELISTED_SECONDS = 5.0

IN_A_ROW = 20_000
"""Numbers that are cancelled one behind the other, before somebody takes what follows them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A courier with a long line, and those who ask for something."""

    redis: Redis
    limiter: Limiter
    canceller: Canceller
    forgetter: Forgetter
    length: int
    draw: random.Random
    new: count[int]

    def waiting(self, automatic: int = 0) -> list[Number]:
        """Draw some that wait, anywhere in one of the lists."""
        return [_number(automatic, index) for index in self.draw.sample(range(self.length), ASKED)]

    async def park(self, numbers: Iterable[Number], origin: Origin = Origin.MANUAL) -> list[str]:
        """Ask for each, under an id; returns the ids."""
        ids = {number: f"op-{next(self.new)}" for number in numbers}
        asks = (
            TrackingRequest(SLUG, number, given=number, id=operation, origin=origin)
            for number, operation in ids.items()
        )
        await asyncio.gather(
            *(self.limiter.admit(f"call-{each.id}", each, f"job-{each.id}") for each in asks)
        )
        return list(ids.values())

    async def calls(self) -> Sequence[Call]:
        """Take some calls."""
        calls: list[Call] = []
        while len(calls) < ASKED // 2:
            calls += (await self.limiter.take(f"take-{next(self.new)}", LINE, 100)).calls
        return calls


def _number(automatic: int, index: int) -> Number:
    return Number(f"{'MA'[automatic]}{index:020}")


async def _write(line: Line) -> None:
    """Write both lists, each record as that of a request that was admitted."""
    limiter, model = line.limiter, Number("MODEL")
    await line.redis.set(NAMES.calls_paused, "benchmark", px=60_000)
    await limiter.admit("second", _request(model), f"job-{SLUG}-{model}")
    record = str(await line.redis.hget(NAMES.wait_requests, model))
    await line.canceller.cancel(SLUG, model)
    for automatic, key in enumerate((NAMES.wait_list, NAMES.wait_list_automatic)):
        text = record.replace("{", '{"auto":true,', 1) if automatic else record
        for begin in range(0, line.length, WRITTEN_AT_ONCE):
            part = range(begin, min(line.length, begin + WRITTEN_AT_ONCE))
            numbers = [_number(automatic, index) for index in part]
            at = '"position":'
            texts = [
                text.replace(f"{at}0", f"{at}{i}").replace(model, n)
                for i, n in zip(part, numbers, strict=True)
            ]
            pipeline = line.redis.pipeline(transaction=False)
            pipeline.rpush(key, *numbers)
            pipeline.hset(NAMES.wait_requests, mapping=dict(zip(numbers, texts, strict=True)))
            await pipeline.execute()
    await line.redis.delete(NAMES.calls_paused)


def _request(number: str) -> TrackingRequest:
    return TrackingRequest(SLUG, Number(number), given=number)


async def _join(line: Line) -> None:
    await line.park(line.waiting())


async def _park(line: Line) -> None:
    await line.park(Number(f"NEW{next(line.new)}") for _ in range(ASKED))


async def _raise(line: Line) -> None:
    await line.park(line.waiting(automatic=1))


async def _take(line: Line) -> None:
    await line.calls()


async def _finish(line: Line) -> None:
    calls = await line.calls()
    await _begin(line)
    await asyncio.gather(*(line.limiter.finish(call, ANSWER, 1) for call in calls))


async def _hand_back(line: Line) -> None:
    calls = await line.calls()
    await _begin(line)
    await asyncio.gather(*(line.limiter.hand_back(call, 0) for call in calls))


async def _retry(line: Line) -> None:
    calls = await line.calls()
    await _begin(line)
    await asyncio.gather(*(line.limiter.retry(call, NOW, 0) for call in calls))


async def _due(line: Line) -> None:
    await _retry(line)
    await _begin(line)
    await line.calls()


async def _cancel(line: Line) -> None:
    numbers = (*line.waiting(), *line.waiting(automatic=1))
    await _all(line.canceller.cancel_many([Wanted(SLUG, number) for number in numbers]))


async def _cancel_id(line: Line) -> None:
    numbers = line.waiting()
    wanted = zip(numbers, await line.park(numbers), strict=True)
    await _begin(line)
    await _all(line.canceller.cancel_many([Wanted(SLUG, *each) for each in wanted]))


async def _cancel_by_hand(line: Line) -> None:
    numbers = [Number(f"HAND{index}") for index in range(ASKED)]
    await line.redis.rpush(NAMES.wait_list, *numbers)
    await _all(line.canceller.cancel_many([Wanted(SLUG, number) for number in numbers]))


async def _forget(line: Line) -> None:
    for number in line.waiting()[:100]:
        await line.forgetter.forget(SLUG, number)


async def _pass_over(line: Line) -> None:
    begin = 10 + int(str(await line.redis.hget(NAMES.wait_order, "manual")))
    part = range(begin, min(line.length, begin + IN_A_ROW))
    await _all(line.canceller.cancel_many([Wanted(SLUG, _number(0, index)) for index in part]))
    await _begin(line)
    await line.calls()


async def _cancel_line(line: Line) -> None:
    seen = 0
    async for _ in line.canceller.cancel_courier(SLUG):
        seen += 1
        if seen == ASKED:
            break


async def _sweep(line: Line) -> None:
    await line.limiter.sweep([LINE])


async def _relist(line: Line) -> None:
    await line.redis.delete(NAMES.wait_list, NAMES.wait_list_automatic, NAMES.wait_later)
    await line.redis.delete(NAMES.wait_drainer)
    await _begin(line)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(line.limiter.sweep([LINE]), RELISTED_SECONDS)


ASKS: dict[str, Callable[[Line], Awaitable[None]]] = {
    "admit: new numbers": _park,
    "admit: numbers that wait": _join,
    "admit: AUTOMATIC numbers, now MANUAL": _raise,
    "take": _take,
    "finish, each taking the next": _finish,
    "hand_back": _hand_back,
    "retry": _retry,
    "take, a thousand retries due": _due,
    "cancel: numbers anywhere": _cancel,
    "cancel: ids": _cancel_id,
    "cancel: numbers pushed by hand": _cancel_by_hand,
    "forget": _forget,
    f"take, {IN_A_ROW:,} in a row cancelled": _pass_over,
    "cancel: the line": _cancel_line,
    "sweep": _sweep,
    "sweep, the lists deleted": _relist,
}


async def _all(came: AsyncIterator[object]) -> None:
    async for _ in came:
        pass


@asynccontextmanager
async def _line(url: str, length: int) -> AsyncIterator[Line]:
    redis = open_redis(RedisAddress(url))
    clock = Clock()
    pipeline = Pipeline(redis, clock)
    limiter = Limiter(pipeline, clock, Epoch(pipeline, 0.0), lambda _: RULES, Policy())
    helpers = Canceller(redis, lambda _: RULES), Forgetter(redis, lambda _: RULES)
    try:
        await limiter.start()
        line = Line(redis, limiter, *helpers, length, random.Random(7), count())
        await _write(line)
        yield line
    finally:
        await limiter.close()
        await redis.aclose()


async def _rows(url: str, length: int) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    async with _line(url, length) as line:
        # Lower, and the log of each command inside the scripts would be most of their time.
        await line.redis.config_set("slowlog-log-slower-than", LOGGED_US)
        await line.redis.config_set("slowlog-max-len", 100_000)
        for name, ask in ASKS.items():
            await _begin(line)
            await ask(line)
            rows.append({"waiting": length, "asked": name, **await _spent(line.redis)})
            await line.redis.delete(NAMES.wait_inflight, NAMES.calls_leases)
        await line.redis.config_set("slowlog-log-slower-than", -1)
    return rows


async def _begin(line: Line) -> None:
    """Measure from here on."""
    await line.redis.slowlog_reset()
    await line.redis.config_resetstat()


async def _spent(redis: Redis) -> dict[str, Value]:
    scripts = (await redis.info("commandstats"))["cmdstat_evalsha"]
    log = await redis.slowlog_get(100_000)
    slow = [each["duration"] for each in log if b"EVALSHA" in _text(each["command"])[:7]]
    return {
        "scripts": scripts["calls"],
        "mean_ms": scripts["usec"] / scripts["calls"] / 1000,
        "most_ms": max(slow, default=LOGGED_US) / 1000,
    }


def _text(command: str | bytes) -> bytes:
    return command.encode() if isinstance(command, str) else command


def measure(redis_url: str, length: int) -> list[dict[str, Value]]:
    """Write a line of twice `length`, ask everything of it; a row for each thing asked."""
    return asyncio.run(_rows(redis_url, length))
