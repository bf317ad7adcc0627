"""A line that is drained to its end by one worker, in a time that goes by when it is told to."""

from __future__ import annotations

import heapq
import itertools
import json
import math
from abc import ABC, abstractmethod
from typing import Any

from limits_bench import KEYS, Worker, asked, redis_us, verdict
from redis.asyncio import Redis

from limits.keys import write_request

SENT_LATE_US = 1_000
"""A call leaves so long after its instant."""

LEAP = """
for key, unit in pairs({ [KEYS[1]] = 1, [KEYS[2]] = 1, [KEYS[3]] = 1, [KEYS[4]] = 1000 }) do
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    redis.call('ZINCRBY', key, -ARGV[1] / unit, member)
  end
end
"""


class Life(ABC):
    """`starts` tells when the call for each number began, in µs of the line's own time."""

    def __init__(self, took_seconds: float = 0.0) -> None:
        self.starts: dict[str, int] = {}
        self._took_us = round(took_seconds * 1_000_000)
        self._serial = itertools.count()
        self._ends: list[tuple[int, str, str]] = []
        self._reports: list[Any] = []

    @abstractmethod
    async def step(self, name: str, *args: Any, reports: list[Any]) -> list[Any]:
        """One step of a script; all instants are of the line's own time."""

    @abstractmethod
    async def now(self) -> int:
        """Its time, in µs."""

    @abstractmethod
    async def reach(self, us: int) -> None:
        """Let time go by until then, if it is not that late already."""

    async def put(self, number: str, **fields: Any) -> str:
        """Ask for a call; what admit.lua answers."""
        job = f"job-{next(self._serial)}"
        request = write_request(asked(number, **fields), job)
        _, word, *rest = await self._step("admit", self._new(), request.decode(), "")
        if word == "granted":
            self._begin(rest[0])
        return str(word)

    async def live(self) -> None:
        """Until nobody waits and nothing runs."""
        ask = await self.now()
        while True:
            due = min(ask, self._ends[0][0] if self._ends else math.inf)
            if due == math.inf:
                return
            await self.reach(int(due))
            if self._ends and self._ends[0][0] <= due:
                _, call_id, number = heapq.heappop(self._ends)
                reply = await self._end(call_id, number)
                ask = self._go_on(reply[2:], ask)
            else:
                reply = await self._step("take", self._new(), 20, 1)
                ask = self._go_on(reply[1:], math.inf)

    async def _end(self, call_id: str, number: str) -> list[Any]:
        end = verdict(await self.now() // 1000).decode()
        return await self._step("finish", call_id, end, number, self._new(), 20)

    def _go_on(self, turn: list[Any], ask: float) -> float:
        grants, _, ask_us, _ = turn
        for grant in grants:
            self._begin(grant)
        return int(ask_us) or ask

    def _begin(self, grant: list[Any]) -> None:
        call_id, at, _, record, _ = grant
        number, sent = json.loads(record)["n"], int(at) + SENT_LATE_US
        self.starts[number] = sent
        self._reports += [call_id, sent]
        heapq.heappush(self._ends, (sent + self._took_us, call_id, number))

    async def _step(self, name: str, *args: Any) -> list[Any]:
        reports, self._reports = self._reports, []
        return await self.step(name, *args, reports=reports)

    def _new(self) -> str:
        return f"life-{next(self._serial)}"


class LifeInRedis(Life):
    """On a real Redis: its clock does not leap, so what is behind a leap is moved into the past.

    Not so how long calls take, as Redis measures that itself.
    """

    def __init__(self, worker: Worker, redis: Redis) -> None:
        super().__init__()
        self._worker, self._redis = worker, redis
        self._leapt = 0

    async def step(self, name: str, *args: Any, reports: list[Any]) -> list[Any]:
        told = [each - self._leapt if isinstance(each, int) else each for each in reports]
        reply = await self._worker.raw(name, *args, reports=told)
        return self._later(name, reply)

    def _later(self, name: str, reply: list[Any]) -> list[Any]:
        """The same reply, its instants in the line's own time."""
        if name == "admit":
            return [*reply[:2], *(map(self._shifted, reply[2:]) if reply[1] == "granted" else [])]
        *head, grants, why, ask, put = reply
        later = int(ask) + self._leapt if int(ask) else 0
        return [*head, list(map(self._shifted, grants)), why, later, put]

    def _shifted(self, grant: list[Any]) -> list[Any]:
        call_id, at, *rest = grant
        return [call_id, int(at) + self._leapt, *rest]

    async def now(self) -> int:
        return await redis_us(self._redis) + self._leapt

    async def reach(self, us: int) -> None:
        if (left := us - await self.now()) <= 0:
            return
        keys = (KEYS.call_starts, KEYS.calls_leases, KEYS.calls_hour, KEYS.wait_later)
        await self._redis.eval(LEAP, len(keys), *keys, left)
        self._leapt += left
