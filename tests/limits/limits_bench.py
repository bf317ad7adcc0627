"""What the tests of limits share: workers on a real Redis, requests, and a hand behind the scenes.

Time is not waited for where Redis can be told that it went by: a lease that ended has a score in
the past, and so has a lane that is free again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redis.asyncio import Redis

from limits.admin.forget import Forgetter, Forgotten
from limits.clock import Clock
from limits.epoch import Epoch
from limits.keys import LineKeys, of_line, write_request, write_rules, write_setback
from limits.limiter import Limiter, Policy
from limits.pipeline import Pipeline
from limits.rules import Changes, RuleBook, Rules
from tracking.call import Admission, Call, Ended, Granted, Parked, Setback, TakeResult, Verdict
from tracking.errors import ResultsDown
from tracking.line import TRACKING, Brake
from tracking.operation import State
from tracking.request import Account, Number, Slug, TrackingRequest
from tracking.tally import tally_of

USPS = Slug("usps")
KEYS: LineKeys = of_line(USPS)

FAST = Rules(per_second=1000)
"""For what has nothing to do with the rate."""

ANSWERED = Verdict(State.SUCCESS, {"tag": "Delivered"})
DEAD = Verdict(State.ERROR, {"error": "courier_down"}, answered=False)

NO_PLACES = b"[]"
"""As cancel.lua and forget.lua read it: the number was not pushed by hand."""

AT_ONCE = Brake(after=1, first_seconds=60.0, cap_seconds=3_600.0)
"""One number stops the line."""

_jobs = itertools.count(1)


def again_in(seconds: float) -> Setback:
    """A call failed that is held against nobody."""
    return Setback("results_down", seconds)


def failed(why: str = "courier_down", **other: Any) -> Setback:
    """A call failed as the policy takes it: the courier's fault, until others are answered."""
    patience = 86_400.0 if why in {"auth_failed", "rate_limited", "no_credentials"} else None
    firm = why in {"rate_limited", "no_credentials"}
    plain = {"delay": 60.0, "brake": TRACKING.brakes[why], "patience": patience, "firm": firm}
    plain["of_credentials"] = why in {"auth_failed", "no_credentials"}
    return Setback(why, **{**plain, **other})


def raw(setback: Setback, *, unsent: bool = False) -> bytes:
    """A setback as retry.lua reads it."""
    return write_setback(setback, unsent=unsent)


def asked(number: str = "N001", **fields: Any) -> TrackingRequest:
    """A request as the tubes decode it."""
    fields = {"given": number, "slug": USPS, **fields}
    return TrackingRequest(number=Number(number), **fields)


@dataclass(frozen=True, slots=True)
class Worker:
    """One process's limits, on a connection of its own."""

    limiter: Limiter
    pipeline: Pipeline
    clock: Clock
    epoch: Epoch
    rules: Rules
    policy: Policy
    told: Mapping[str, int] = field(default_factory=dict)
    """Rules that `raw` tells otherwise, as lib/context.lua names them."""

    async def admit(self, number: str = "N001", job: str | None = None, **fields: Any) -> Admission:
        """Ask for a call, for a job that is new unless it is named."""
        job = job or f"job-{next(_jobs)}"
        return await self.limiter.admit(next(self.limiter.ids), asked(number, **fields), job)

    async def admit_with(
        self, answer: Verdict, number: str = "N001", job: str | None = None, **fields: Any
    ) -> Admission:
        """Ask for a call with a stored answer in hand, for a job that is new unless it is named."""
        job, request = job or f"job-{next(_jobs)}", asked(number, **fields)
        return await self.limiter.admit(next(self.limiter.ids), request, job, answer)

    async def granted(self, number: str = "N001", job: str | None = None, **fields: Any) -> Call:
        admission = await self.admit(number, job, **fields)
        assert isinstance(admission, Granted), admission
        return admission.call

    async def parked(self, number: str = "N001", job: str | None = None, **fields: Any) -> Parked:
        admission = await self.admit(number, job, **fields)
        assert isinstance(admission, Parked), admission
        return admission

    async def ended(self, number: str = "N001", job: str | None = None, **fields: Any) -> State:
        admission = await self.admit(number, job, **fields)
        assert isinstance(admission, Ended), admission
        return admission.state

    async def take(self, room: int = 10, *, claims: bool = False) -> TakeResult:
        return await self.limiter.take(next(self.limiter.ids), USPS, room, claims=claims)

    async def taken(self) -> Call:
        """The one call whose turn it is."""
        (call,) = (await self.take(1)).calls
        return call

    async def finish(self, call: Call, verdict: Verdict = ANSWERED, room: int = 0) -> TakeResult:
        return await self.limiter.finish([(call, verdict)], room)

    async def repeat(self, call: Call, seconds: float = 60.0) -> TakeResult:
        """Have a call made again later, which is held against nobody."""
        return await self.limiter.retry(call, again_in(seconds), 0)

    async def raw(self, script: str, *args: Any, reports: list[Any] | None = None) -> list[Any]:
        """What a script itself answers."""
        settings: dict[str, object] = {
            "epoch": self.epoch.name,
            "token": self.limiter.token,
            "deaths": self.policy.deaths,
            "revision": 0,
            "max_age_ms": round(self.policy.max_age * 1000),
            **self.told,
        }
        rules = write_rules(self.rules, settings)
        written = json.dumps(reports or [])
        return list(await self.pipeline.run(script, [KEYS.wait_list], (rules, written, *args)))

    async def raw_admit(
        self, call_id: str, number: str = "N001", job: str | None = None, **fields: Any
    ) -> list[Any]:
        request = write_request(asked(number, **fields), job or f"job-of-{call_id}")
        return await self.raw("admit", call_id, request, b"")


@dataclass(slots=True)
class Shelf:
    """What MongoDB holds of the rules."""

    rules: Rules = FAST
    revision: int = 0
    is_away: bool = False
    quotas: dict[Account, int] = field(default_factory=dict)

    def change(self, **limits: int | None) -> int:
        """Set limits; returns the revision, of which Redis has still to hear."""
        self.rules = replace(self.rules, **limits)  # type: ignore[arg-type]
        self.revision += 1
        return self.revision

    def ration(self, **quotas: int) -> int:
        """Set the calls a day of accounts, and take back all others; returns the revision."""
        self.quotas = {Account(account): calls for account, calls in quotas.items()}
        self.revision += 1
        return self.revision


class Book(RuleBook):
    """The rules that one worker goes by."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(lambda _: self._plain, self._look)
        self._shelf, self._plain, self.learned = shelf, shelf.rules, 0

    async def _look(self) -> Changes:
        if self._shelf.is_away:
            raise ResultsDown("MongoDB is away")
        self._plain = self._shelf.rules
        self.learned += 1
        return Changes(self._shelf.revision, quotas=dict(self._shelf.quotas))


Hire = Callable[..., Awaitable[Worker]]
"""Makes a worker; takes its rules, its policy and its quiet time after a loss."""


def verdict(observed_ms: int, **other: Any) -> bytes:
    """A verdict as finish.lua reads it."""
    plain = {"state": "SUCCESS", "observed": observed_ms, "answered": True}
    output = other.pop("output", "{}")
    return f"{output}\t{json.dumps({**plain, **other})}".encode()


async def forget(forgetter: Forgetter) -> Forgotten:
    """Forget N001."""
    return await forgetter.forget(USPS, Number("N001"))


async def sent(call: Call) -> Call:
    """Spend a call's permit: its request left just now."""
    await call.permit.before_send()
    call.permit.after_send()
    return call


async def redis_us(redis: Redis) -> int:
    """Redis' clock, in microseconds."""
    seconds, micros = await redis.time()
    return int(seconds) * 1_000_000 + int(micros)


async def flag_seconds(redis: Redis) -> float:
    """How long the flag still lives."""
    return await redis.pttl(KEYS.wait_list_activated) / 1000


async def a_millisecond_goes_by(redis: Redis) -> None:
    """Answers and operations are dated to the millisecond."""
    before = await redis_us(redis) // 1000

    async def over() -> bool:
        return await redis_us(redis) // 1000 > before

    await until(over)


async def a_second_goes_by(redis: Redis) -> None:
    """All lanes are free again."""
    await _all_past(redis, KEYS.call_starts)


async def the_lease_ends(redis: Redis, *calls: Call) -> None:
    """The workers of these calls have not been heard of for a lease."""
    await redis.zadd(KEYS.calls_leases, {call.id: 1 for call in calls}, xx=True)


async def retries_are_due(redis: Redis) -> None:
    await _all_past(redis, KEYS.wait_later)


async def they_expire(redis: Redis) -> None:
    """Nobody wants the answers any more that somebody wanted for a while only."""
    for name, text in (await redis.hgetall(KEYS.wait_requests)).items():
        await redis.hset(KEYS.wait_requests, name, _past(text))
    for name in await redis.keys(f"{KEYS.status}*"):
        await redis.set(name, _past(await redis.get(name)), keepttl=True)


def _past(text: str) -> str:
    return re.sub(r'"till":\d+', '"till":1', text)


async def _all_past(redis: Redis, key: str) -> None:
    members = await redis.zrange(key, 0, -1)
    if members:
        await redis.zadd(key, dict.fromkeys(members, 1), xx=True)


async def status(redis: Redis, operation: str) -> dict[str, Any] | None:
    text = await redis.get(f"{KEYS.status}{operation}")
    return json.loads(text) if text else None


async def state(redis: Redis, operation: str) -> str | None:
    found = await status(redis, operation)
    return found["status"] if found else None


async def counted(redis: Redis, *names: str, slug: str = USPS) -> tuple[int, ...]:
    """What scripts decide by, or else what statistics count; 0 for what never happened."""
    told = [await redis.hgetall(each) async for each in redis.scan_iter(f"*stats2:{slug}:*")]
    found = Counter(tally_of(told).counts)
    for name, count in (await redis.hgetall(f"tracking:counts:{slug}")).items():
        found[name] = int(count)
    return tuple(found[name] for name in names)


def read(value: Any) -> Any:
    """A reply or a value with its JSON texts read: their members come in any order."""
    match value:
        case str() if value[:1] in "{[" and value:
            texts = [json.loads(each) for each in value.split("\t")]
            return texts if len(texts) > 1 else texts[0]  # an answer is two
        case list():
            return [read(each) for each in value]
        case dict():
            return {name: read(each) for name, each in value.items()}
        case _:
            return value


async def everything(redis: Redis) -> dict[str, Any]:
    """All that Redis holds, but for the times to live."""
    held: dict[str, Any] = {}
    for key in sorted(await redis.keys()):
        match await redis.type(key):
            case "string":
                held[key] = await redis.get(key)
            case "list":
                held[key] = await redis.lrange(key, 0, -1)
            case "hash":
                held[key] = await redis.hgetall(key)
            case "zset":
                held[key] = await redis.zrange(key, 0, -1, withscores=True)
            case "stream":
                held[key] = await redis.xrange(key)
            case "set":
                held[key] = sorted(await redis.smembers(key))
    return {key: read(value) for key, value in held.items()}


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Wait for a condition; fails when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
