"""A courier with a long line: written as admission writes it, and whom one asks about it.

A list of MANUAL and one of AUTOMATIC requests, each of the full length. Everything is asked through
the classes of a worker and of the command line, many at once, about numbers anywhere in the lists.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from redis.asyncio import Redis

from benchmarks.redis_figures import ScriptTimes
from limits import keys
from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from limits.admin.view import View
from limits.clock import Clock
from limits.connect import open_redis
from limits.epoch import Epoch
from limits.keys import write_rules
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import NOBODY, RuleBook, Rules
from limits.server import RedisAddress
from tracking.call import Call, Granted, Setback, Verdict
from tracking.line import Line, courier_line
from tracking.operation import State
from tracking.request import Number, Origin, Slug, TrackingRequest

SLUG = Slug("bench-long")
LINE = courier_line(SLUG)
NAMES = keys.of_line(LINE)
RULES = Rules(concurrent=100_000, per_second=1_000_000, guard_ms=0, max_waiting=10_000_000)
FEW_SLOTS = Rules(per_second=1_000_000, guard_ms=0)
"""Of couriers named `few-…`: 20 calls at once."""

NOW = Setback("results_down")
ANSWER = Verdict(State.SUCCESS, {"tag": "InTransit", "subtag": "InTransit_003", "checkpoints": 12})
PARK = 60_000

WRITTEN_AT_ONCE = 20_000
ASKED = 600
"""Of each kind."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """The line, those who ask, and the times that their scripts take."""

    redis: Redis
    pipeline: Pipeline
    limiter: Limiter
    canceller: Canceller
    forgetter: Forgetter
    view: View
    times: ScriptTimes
    record: str
    """Of a request without an id for the number MODEL, at position 0, as admission writes it."""
    length: int
    draw: random.Random
    new: count[int]

    def waiting(self, automatic: int = 0, most: int = ASKED) -> list[Number]:
        """Draw some that wait, anywhere in one of the lists."""
        drawn = self.draw.sample(range(self.length), min(most, self.length))
        return [number_of(automatic, index) for index in drawn]

    def new_numbers(self, many: int = ASKED) -> list[Number]:
        """Name numbers that nobody has asked for."""
        return [Number(f"NEW{next(self.new)}") for _ in range(many)]

    async def ask(
        self, numbers: Iterable[Number], slug: Slug = SLUG, origin: Origin = Origin.MANUAL
    ) -> tuple[list[str], list[Call]]:
        """Ask for each, under an id of its own; gives the ids, and the calls that were granted."""
        ids = [(number, f"op-{next(self.new)}") for number in numbers]
        told = await asyncio.gather(
            *(
                self.limiter.admit(
                    f"call-{each}",
                    TrackingRequest(slug, number, given=number, id=each, origin=origin),
                    f"job-{each}",
                )
                for number, each in ids
            )
        )
        calls = [each.call for each in told if isinstance(each, Granted)]
        return [each for _, each in ids], calls

    async def calls(self, line: Line = LINE, many: int = ASKED // 2) -> Sequence[Call]:
        """Take some calls."""
        calls: list[Call] = []
        while len(calls) < many:
            turn = await self.limiter.take(f"take-{next(self.new)}", line, 100, claims=True)
            if not turn.calls and turn.ask_again is None:
                break
            calls += turn.calls
        return calls

    async def land(self) -> None:
        """Forget all calls that run."""
        names = keys.of_line(LINE)
        await self.redis.delete(names.wait_inflight, names.calls_leases, names.calls_number)

    async def step(self, name: str, line: Line, *args: Any) -> Any:
        """Run a step as it is, by the rules of nobody who calls."""
        rules = write_rules(rules_of(line), NOBODY)
        return await self.pipeline.run(name, [keys.wait_list(line)], (rules, b"[]", *args))


def number_of(automatic: int, index: int) -> Number:
    """The number at a place of one of the lists."""
    return Number(f"{'MA'[automatic]}{index:020}")


def rules_of(line: Line) -> Rules:
    """One object for each kind, so that it is written once."""
    return FEW_SLOTS if line.startswith("few-") else RULES


async def _record_of_one(redis: Redis, limiter: Limiter, canceller: Canceller) -> str:
    model = Number("MODEL")
    await redis.set(NAMES.calls_paused, "benchmark", px=PARK)
    await limiter.admit("model", TrackingRequest(SLUG, model, given=model), f"job-{SLUG}-{model}")
    record = str(await redis.hget(NAMES.wait_requests, model))
    await canceller.cancel(SLUG, model)
    await redis.delete(NAMES.calls_paused)
    return record


def _automatic(text: str) -> str:
    record = json.loads(text)
    record["auto"] = record["anon"]["auto"] = True
    return json.dumps(record, separators=(",", ":"))


async def _write(line: LongLine) -> None:
    """Write both lists, each record as that of a request that was admitted."""
    for automatic, key in enumerate((NAMES.wait_list, NAMES.wait_list_automatic)):
        text = _automatic(line.record) if automatic else line.record
        for begin in range(0, line.length, WRITTEN_AT_ONCE):
            part = range(begin, min(line.length, begin + WRITTEN_AT_ONCE))
            numbers = [number_of(automatic, index) for index in part]
            at = '"position":'
            texts = [
                text.replace(f"{at}0", f"{at}{i}").replace("MODEL", n)
                for i, n in zip(part, numbers, strict=True)
            ]
            pipeline = line.redis.pipeline(transaction=False)
            pipeline.rpush(key, *numbers)
            pipeline.hset(NAMES.wait_requests, mapping=dict(zip(numbers, texts, strict=True)))
            await pipeline.execute()
    await line.redis.sadd(keys.LINES, LINE)


@asynccontextmanager
async def open_line(url: str, length: int, times: ScriptTimes) -> AsyncIterator[LongLine]:
    """Write a line into an empty Redis. It is gone when the block ends."""
    redis = open_redis(RedisAddress(url))
    clock = Clock()
    pipeline = Pipeline(redis, clock)
    limiter = Limiter(pipeline, clock, Epoch(pipeline, 0.0), RuleBook(rules_of), Policy())
    canceller = Canceller(redis, rules_of)
    people = canceller, Forgetter(redis, rules_of), View(redis, rules_of)
    try:
        await limiter.start()
        record = await _record_of_one(redis, limiter, canceller)
        drawn = random.Random(7)
        line = LongLine(redis, pipeline, limiter, *people, times, record, length, drawn, count())
        await _write(line)
        yield line
    finally:
        await limiter.close()
        await redis.flushall()
        await redis.aclose()


def later(record: str, number: str) -> str:
    """The record of a retry that is not due, out of that of MODEL."""
    told = {**json.loads(record.replace("MODEL", number)), "state": "later"}
    del told["position"]
    return json.dumps(told)
