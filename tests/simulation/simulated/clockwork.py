"""One line in process, whose clock goes when it is told to: the real scripts, and nothing else."""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limits.clock import Clock
from limits.keys import EPOCH, of_line, write_rules
from limits.limiter import Limiter, Policy
from limits.rules import RuleBook, Rules
from limits.script_file import ALONE, BATCH, load
from service.worker.flow.tracking_work import Die, Repeat, RetryRules, decide
from simulated.keyspace import Hash, Keyspace
from simulated.scripting import Scripting
from tracking.call import Call, Granted, Parked, TakeResult, Verdict
from tracking.errors import CourierError
from tracking.line import courier_line
from tracking.operation import State
from tracking.request import Number, Slug, TrackingRequest

USPS = Slug("usps")
LINE = courier_line(USPS)
BEGAN = 1_800_000_000.0
SCRIPTING = Scripting()
TEXTS = {name: script.text.encode().decode("latin-1") for name, script in load().items()}


class Redis:
    """A Redis in process whose clock goes when it is told to."""

    def __init__(self) -> None:
        self.now_us = 1_800_000_000_000_000
        self.space = Keyspace(lambda: self.now_us)
        self.space.put(EPOCH, "epoch 0")

    def wait(self, seconds: float) -> None:
        self.now_us += round(seconds * 1_000_000)

    def run(self, name: str, rules: Rules, *args: str, reports: Sequence[Any] = ()) -> Any:
        common: Mapping[str, object] = {
            "epoch": "epoch",
            "token": "worker",
            "deaths": 3,
            "revision": 0,
            "max_age_ms": 30_000,
        }
        return self.step(name, write_rules(rules, common).decode(), json.dumps(reports), *args)

    def step(self, name: str, rules: str, *values: str) -> Any:
        """One step of the script for lines: the reports and what its header names."""
        argv = ["0", "1", f"{name} {1 + len(values)}", rules, "1", "0", *values]
        (reply,) = self.script(BATCH, [of_line(USPS).wait_list], argv)
        return reply

    def script(self, name: str, keys: list[str], argv: list[str]) -> Any:
        self.space.tick()
        return SCRIPTING.run(self.space, TEXTS[name], keys, argv)

    def field(self, key: str, name: str) -> str | None:
        fields = self.space.of(Hash, key)
        return fields.get(name) if fields else None

    def text(self, key: str) -> str | None:
        self.space.tick()
        return self.space.text(key)


class Way:
    """Stands in for `limits.pipeline.Pipeline`: each step is a script of its own, done at once."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def run(
        self, name: str, keys: Sequence[str], args: Sequence[Any], weight: int = 1
    ) -> Any:
        assert weight
        argv = [each.decode() if isinstance(each, bytes) else str(each) for each in args]
        if name in ALONE:
            return self._redis.script(name, list(keys), argv)
        rules, *values = argv
        return self._redis.step(name, rules, *values)


class SameEpoch:
    """Stands in for `limits.epoch.Epoch`: this Redis forgets nothing."""

    name = "epoch"
    revision = 0

    async def agree(self) -> None: ...


class Left:
    """Stands in for the permit of a request that the courier has."""

    started = True


@dataclass
class Courier:
    """`fails` tells what happens at a time, in seconds, to a number; None: it is answered."""

    fails: Callable[[float, str], CourierError | None]
    calls: list[tuple[float, str]] = field(default_factory=list)


class Clockwork:
    """One worker, one courier. Every call takes half a second. Nothing waits for real."""

    def __init__(
        self, courier: Courier, sweep_seconds: float = 5.0, retry: RetryRules | None = None
    ) -> None:
        self.redis, self.courier = Redis(), courier
        self._sweep_seconds = sweep_seconds
        self.answered: dict[str, float] = {}
        self.dead: dict[str, tuple[float, str]] = {}
        self._ask = math.inf
        self._events: list[tuple[float, int, str, Call | None]] = []
        self._serial = itertools.count()
        way: Any = Way(self.redis)
        rules = Rules()
        epoch: Any = SameEpoch()
        self._limiter = Limiter(way, Clock(), epoch, RuleBook(lambda _: rules), Policy())
        self._retry, self._draw = retry or RetryRules(), random.Random(1).random

    @property
    def now(self) -> float:
        return self.redis.now_us / 1_000_000 - BEGAN

    async def put(self, *numbers: str) -> None:
        """Requests come, now."""
        for number in numbers:
            request = TrackingRequest(USPS, Number(number), number)
            admission = await self._limiter.admit(self._id(), request, f"job-{next(self._serial)}")
            if isinstance(admission, Granted):
                self._call(admission.call)
            elif isinstance(admission, Parked) and admission.put_drain:
                self._at(self.now, "claim")

    async def run_until(self, seconds: float) -> None:
        """Live until then."""
        await self._limiter.start()
        if not any(what == "sweep" for _, _, what, _ in self._events):
            self._at(self.now + self._sweep_seconds, "sweep")
        while self._events and self._events[0][0] <= seconds:
            at, _, what, call = heapq.heappop(self._events)
            self.redis.now_us = max(self.redis.now_us, round((BEGAN + at) * 1_000_000))
            await self._happens(what, call)
        self.redis.now_us = round((BEGAN + seconds) * 1_000_000)

    async def _happens(self, what: str, call: Call | None) -> None:
        match what:
            case "ask" if self.now < self._ask:
                return  # it was put off, or asked for sooner
            case "ask" | "claim":
                claims, self._ask = what == "claim", math.inf
                self._go_on(
                    await self._limiter.take(self._id(), courier_line(USPS), 20, claims=claims)
                )
            case "sweep":
                self._at(self.now + self._sweep_seconds, "sweep")
                for swept in await self._limiter.sweep([courier_line(USPS)]):
                    for dying in swept.dying:
                        await self._die(
                            dying, dying.given_up, Verdict(State.ERROR, {}, answered=False)
                        )
                    if swept.put_drain:
                        self._at(self.now, "ask")
            case "end" if call is not None:
                await self._end(call)

    async def _end(self, call: Call) -> None:
        number = str(call.request.number)
        error = self.courier.fails(self.now, number)
        if error is None:
            self.answered[number] = self.now
            self._go_on(await self._limiter.finish([(call, Verdict(State.SUCCESS, {}))], 20))
            return
        decision = decide(error, call, BEGAN + self.now, self._retry, self._draw)
        assert isinstance(decision, Die | Repeat)
        if isinstance(decision, Repeat):
            result = await self._limiter.retry(call, decision.setback, 20)
            if not result.used_up:
                self._go_on(result)
                return
        verdict = Verdict(State.ERROR, {}, answered=False, setback=decision.setback)
        await self._die(call, error.code, verdict)

    async def _die(self, call: Call, why: str, verdict: Verdict) -> None:
        self.dead[str(call.request.number)] = self.now, why
        self._go_on(await self._limiter.finish([(call, verdict)], 20))

    def _go_on(self, result: TakeResult) -> None:
        for call in result.calls:
            self._call(call)
        if result.ask_again is not None:
            # The clock of a limiter that never saw Redis' is Redis' own.
            self._ask = max(self.now, min(self._ask, result.ask_again - BEGAN))
            self._at(self._ask, "ask")

    def _call(self, call: Call) -> None:
        at = max(self.now, call.granted_us / 1_000_000 - BEGAN)
        self.courier.calls.append((at, str(call.request.number)))
        left: Any = Left()
        self._at(at + 0.5, "end", call._replace(permit=left))

    def _id(self) -> str:
        return f"clockwork-{next(self._serial)}"

    def _at(self, at: float, what: str, call: Call | None = None) -> None:
        heapq.heappush(self._events, (at, next(self._serial), what, call))
