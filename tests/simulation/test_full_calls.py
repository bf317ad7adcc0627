"""An hour of a courier that takes many numbers in a call, and few calls an hour."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from limits_bench import asked
from test_places_in_time import SimulatedLife

from limits.keys import write_request
from limits.rules import Rules
from tracking.request import Origin

HOUR = 3_600.0
CALLS, TOGETHER = 60, 35
NUMBERS_LEAST = 1_900
MANUAL_SECONDS_MOST = 10.5
"""Ten, and what a call in flight and its report take."""

TAKES_MOST = 5 * CALLS
"""Who asks for the line asks when something may go, and twice a minute."""

RULES = Rules(per_hour=CALLS, together=TOGETHER)


@dataclass(frozen=True, order=True)
class Arrival:
    """A request comes, so many seconds after the beginning."""

    at: float
    number: str
    origin: Origin


class Hours(SimulatedLife):
    """Live through arrivals with one worker, which asks when it is told to, and only then."""

    def __init__(self) -> None:
        super().__init__(RULES, took_seconds=0.5)
        self._began = self.redis.now_us
        self._ask = math.inf
        self.came: dict[str, Arrival] = {}
        self.takes = 0
        self._calls: dict[str, int] = {}
        self.left: dict[str, int] = {}
        """How many calls the quota left when a MANUAL request came."""

    async def live_through(self, arrivals: Iterable[Arrival], seconds: float) -> None:
        """Until then; nobody waits for real."""
        coming = sorted(arrivals, reverse=True)
        while True:
            next_end = self._ends[0][0] if self._ends else math.inf
            comes = self._began + coming[-1].at * 1e6 if coming else math.inf
            due = min(self._ask, next_end, comes)
            if due > self._began + seconds * 1e6:
                return
            await self.reach(int(due))
            if comes <= due:
                await self._comes(coming.pop())
            elif next_end <= due:
                await self._one_ends()
            else:
                await self._takes()

    async def _comes(self, arrival: Arrival) -> None:
        if arrival.origin is Origin.MANUAL:
            since = self.redis.now_us - HOUR * 1e6
            self.left[arrival.number] = CALLS - self.calls_since(since)
        self.came[arrival.number] = arrival
        request = write_request(asked(arrival.number, origin=arrival.origin), arrival.number)
        _, word, *rest = await self._step("admit", self._new(), request.decode(), "")
        if word == "granted":
            self._begin(rest[0])
            return
        assert word == "parked"
        _, put, *ask = rest
        self._ask = min([self._ask, *map(int, ask), *([self.redis.now_us] if put else [])])

    async def _one_ends(self) -> None:
        _, call_id, number = heapq.heappop(self._ends)
        end = await self._end(call_id, number)
        self._ask = self._go_on(end[2:], self._ask)

    async def _takes(self) -> None:
        self.takes += 1
        turn = await self._step("take", self._new(), 20, 1)
        self._ask = self._go_on(turn[1:], math.inf)

    def calls_since(self, us: float) -> int:
        """How many calls began since then."""
        return len({call for call, at in self._calls.items() if at > us})

    def _begin(self, grant: list[Any]) -> None:
        super()._begin(grant)
        lead, _, _ = grant[0].partition("~")
        self._calls[lead] = int(grant[1])

    def waited(self, number: str) -> float:
        """Seconds until its call started; for ever where none did."""
        start = self.starts.get(number, math.inf)
        return (start - self._began) / 1e6 - self.came[number].at


def trickling(per_minute: float) -> list[Arrival]:
    each = 60.0 / per_minute
    count = round(HOUR / each)
    return [Arrival(n * each, f"A{n:05}", Origin.AUTOMATIC) for n in range(count)]


def in_bursts(count: int, every: float) -> list[Arrival]:
    times = [n * every for n in range(round(HOUR / every))]
    numbered = enumerate(at for at in times for _ in range(count))
    return [Arrival(at, f"A{n:05}", Origin.AUTOMATIC) for n, at in numbered]


def people(count: int) -> list[Arrival]:
    draw = Random(1)
    return [Arrival(draw.uniform(0.0, HOUR), f"M{n:03}", Origin.MANUAL) for n in range(count)]


@pytest.mark.parametrize(
    "rechecks",
    [
        pytest.param(in_bursts(400, 600.0), id="in bursts"),
        pytest.param(in_bursts(2_300, HOUR), id="all at once", marks=pytest.mark.prove),
        pytest.param(trickling(40.0), id="one by one", marks=pytest.mark.prove),
    ],
)
async def test_60_calls_an_hour_carry_1900_parcels_and_who_asks_waits_for_10_seconds(
    rechecks: list[Arrival],
) -> None:
    hours, asked_by_people = Hours(), people(20)

    await hours.live_through([*rechecks, *asked_by_people], HOUR)

    assert len(hours.starts) >= NUMBERS_LEAST
    assert 0.95 * CALLS <= hours.calls_since(0.0) <= CALLS
    in_time = [each.number for each in asked_by_people if each.at < HOUR - MANUAL_SECONDS_MOST]
    assert [number for number in in_time if hours.waited(number) > MANUAL_SECONDS_MOST] == []
    assert min(hours.left[number] for number in in_time) > 0
    assert hours.takes <= TAKES_MOST
