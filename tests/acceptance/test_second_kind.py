"""A made-up second kind of work keeps all that is promised of limits, kills, drains and people.

It merges nothing, remembers nothing, has no operations, is not counted, and a request that comes
back waits for the lease of its vanished worker. One or two numbers go with a call.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from echo_worker import BETWEEN, CONCURRENT, LEASE, PER_SECOND, echo_rules
from plant import REPOSITORY, Plant
from redis.asyncio import Redis
from running_worker import RunningWorker, until

from devstack import judge
from limits import keys
from limits.admin.cancel import Canceller
from limits.admin.pause import Pauses
from limits.admin.view import Place, View
from limits.connect import RedisAddress, open_redis
from limits.rules import Rules
from tracking.line import Line
from tracking.operation import State
from tracking.request import Number, Slug

T = TypeVar("T")

KILLS = 2

SENT_WITHIN = 1.2
"""Seconds after the grant, from when on the lease counts, within which a call has left."""

SWEEPS = 8.0
"""Seconds within which a sweep has certainly been made."""

OF_OPERATIONS = (keys.STATUS, keys.HISTORY, keys.TO_ARCHIVE, keys.EVENTS, "tracking:stats")

pytestmark = pytest.mark.prove
"""Each `make test` has webhooks, the kind that is real."""

GROUPS = pytest.mark.parametrize("together", [1, 2])


class Echoes:
    """The second kind of work at one plant: its lines, its workers, what was put and answered."""

    def __init__(self, plant: Plant, together: int = 1, latency: float = 0.2) -> None:
        self.plant = plant
        self.together = together
        self._file = plant.file("lines.json")
        self.line = Line(plant.line("shop"))
        self.lines([self.line])
        plant.site.behave(self.line, latency=latency)

    def lines(self, known: Sequence[Line], removed: Sequence[Line] = ()) -> None:
        """Say which lines there are from now on."""
        told = {"known": known, "removed": removed, "together": self.together}
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(told))
        new.replace(self._file)

    def hire(self) -> RunningWorker:
        """Start a worker that knows how to echo, and wait until it takes jobs."""
        environment = {
            "ECHO_LINES": str(self._file),
            "ECHO_SITE": self.plant.site.url,
            "PYTHONPATH": str(REPOSITORY),
        }
        program = str(Path(__file__).with_name("echo_worker.py"))
        return self.plant.hire(command=[sys.executable, program], **environment).ready()

    def put(self, *numbers: str) -> None:
        for number in numbers:
            body = {"type": "echo", "line": self.line, "number": number}
            self.plant.producer.put_body(json.dumps(body).encode())

    def answered(self, line: Line | None = None) -> set[str]:
        """The numbers whose answers are stored."""
        stored = self.plant.collection("echoes").find({"times": {"$gte": 1}})
        names = (str(each["_id"]).partition(":") for each in stored)
        return {number for name, _, number in names if name == (line or self.line)}

    def all_answered(self, numbers: Sequence[str], seconds: float) -> None:
        until(lambda: self.answered() >= set(numbers), seconds, "all are answered")

    def asked(self) -> list[list[str]]:
        """The numbers of each call that arrived, in the order of arrival."""
        return [call.number.split(BETWEEN) for call in self.plant.calls(self.line)]

    def times(self) -> Counter[str]:
        """How often each number was asked for."""
        return Counter(number for numbers in self.asked() for number in numbers)

    def waiting(self) -> int:
        """How many numbers wait in the line."""
        return self.plant.redis.llen(keys.of_line(self.line).wait_list)

    def held_to_limits(self) -> None:
        calls = self.plant.calls(self.line)
        assert judge.most_in_flight(calls) <= CONCURRENT
        assert judge.most_starts_in_any_second(calls) <= PER_SECOND

    def nothing_is_left(self) -> None:
        """Wait until nobody waits, runs or drains; nothing was noted but what is the line's."""
        redis, of_line = self.plant.redis, keys.of_line(self.line)
        busy = [of_line.wait_requests, of_line.wait_inflight, of_line.wait_list]
        until(lambda: not redis.exists(*busy, of_line.wait_drainer), SWEEPS, "nothing is left")
        until(lambda: not self.plant.producer.held(), SWEEPS, "no job is left")
        assert [key for key in redis.scan_iter() if key.startswith(OF_OPERATIONS)] == []
        assert self.plant.dead.count_documents({}) == 0
        assert self.plant.producer.take_buried() == []

    def as_people_do(self, act: Callable[[Redis], Awaitable[T]]) -> T:
        """Do something with a connection to this plant's Redis."""

        async def acting() -> T:
            async with open_redis(RedisAddress(self.plant.redis_url)) as redis:
                return await act(redis)

        return asyncio.run(acting())

    def place(self, number: str) -> Place | None:
        return self.as_people_do(
            lambda redis: View(redis, self.rules_of).place(self.line, Number(number))
        )

    def cancel(self, number: str) -> int:
        """How many requests that cancelled."""
        return self.as_people_do(
            lambda redis: Canceller(redis, self.rules_of).cancel(Slug(self.line), Number(number))
        ).operations

    def brakes(self, act: Callable[[Pauses], Awaitable[T]]) -> T:
        return self.as_people_do(lambda redis: act(Pauses(redis, self.rules_of)))

    def rules_of(self, _: Line) -> Rules:
        return echo_rules(self.together)


def numbers_of(count: int) -> list[str]:
    return [f"ECHO{number:03}" for number in range(count)]


@GROUPS
def test_limits_hold_at_the_receiver_and_each_number_is_asked_for_once(
    plant: Plant, together: int
) -> None:
    echoes, numbers = Echoes(plant, together), numbers_of(24)
    for _ in range(2):
        echoes.hire()
    echoes.put(*numbers)
    echoes.put(numbers[-1])
    echoes.all_answered(numbers, 30.0)

    echoes.held_to_limits()
    assert set(echoes.times().values()) == {1}
    assert {len(each) for each in echoes.asked()} == set(range(1, together + 1))
    echoes.nothing_is_left()


@GROUPS
def test_what_killed_workers_held_comes_back_after_its_lease_and_nothing_is_lost(
    plant: Plant, together: int
) -> None:
    echoes, numbers = Echoes(plant, together, latency=1.0), numbers_of(20)
    *doomed, survivor = (echoes.hire() for _ in range(KILLS + 1))
    echoes.put(*numbers)
    for count, each in enumerate(doomed, 1):
        until(lambda seen=count * CONCURRENT: len(echoes.asked()) >= seen, 30.0, "calls run")
        each.vanish()
    echoes.all_answered(numbers, 60.0)

    assert survivor.process.poll() is None
    echoes.held_to_limits()
    twice = [number for number, times in echoes.times().items() if times > 1]
    assert len(twice) <= KILLS * CONCURRENT * together
    assert max(echoes.times().values()) <= 1 + KILLS
    echoes.nothing_is_left()


def test_a_request_that_comes_back_waits_for_the_lease_of_its_vanished_worker(plant: Plant) -> None:
    echoes = Echoes(plant, latency=1.0)
    doomed = echoes.hire()
    echoes.put("ECHO001")
    until(echoes.asked, 10.0, "the call runs")
    doomed.vanish()
    echoes.hire()
    echoes.all_answered(["ECHO001"], LEASE + SWEEPS + 5.0)

    first, second = plant.calls(echoes.line)
    assert (second.arrived_ns - first.arrived_ns) / 1e9 >= LEASE - SENT_WITHIN
    assert echoes.times() == {"ECHO001": 2}
    echoes.nothing_is_left()


@GROUPS
def test_a_paused_line_starts_nothing_and_who_waits_has_a_place_until_cancelled(
    plant: Plant, together: int
) -> None:
    echoes, numbers = Echoes(plant, together), numbers_of(6)
    echoes.hire()
    echoes.brakes(lambda brakes: brakes.pause(echoes.line, None))
    echoes.put(*numbers)
    until(lambda: echoes.waiting() == len(numbers), 10.0, "all wait")

    places = {number: echoes.place(number) for number in numbers}
    ahead = sorted(place.ahead or 0 for place in places.values() if place)
    assert ahead == list(range(len(numbers)))
    assert {(each.state, each.bound_by) for each in places.values() if each} == {
        (State.WAITING, "paused")
    }
    assert (echoes.cancel(numbers[2]), echoes.cancel(numbers[2])) == (1, 0)
    assert echoes.asked() == []
    assert echoes.brakes(lambda brakes: brakes.resume(echoes.line)).by_hand
    rest = [number for number in numbers if number != numbers[2]]
    echoes.all_answered(rest, 20.0)

    assert echoes.times() == Counter(rest)
    echoes.held_to_limits()
    echoes.nothing_is_left()


def test_a_receiver_that_fails_is_asked_again_within_the_limits(plant: Plant) -> None:
    echoes, numbers = Echoes(plant, together=2), numbers_of(8)
    plant.site.behave(echoes.line, latency=0.1, fault="status", status=500)
    echoes.hire()
    echoes.put(*numbers)
    until(lambda: len(echoes.asked()) >= len(numbers), 20.0, "all fail")
    plant.site.behave(echoes.line, latency=0.1)
    echoes.all_answered(numbers, 30.0)

    echoes.held_to_limits()
    echoes.nothing_is_left()


def test_a_worker_that_stops_hands_back_what_it_calls(plant: Plant) -> None:
    plant.settings["worker.grace_seconds"] = 0.2
    echoes, numbers = Echoes(plant, together=2, latency=1.2), numbers_of(12)
    leaving = echoes.hire()
    echoes.put(*numbers)
    until(lambda: len(echoes.asked()) >= CONCURRENT, 10.0, "calls run")
    assert leaving.stop() == 0
    echoes.hire()
    echoes.all_answered(numbers, 30.0)

    echoes.held_to_limits()
    echoes.nothing_is_left()


def test_lines_come_and_go_while_a_worker_runs(plant: Plant) -> None:
    echoes, later = Echoes(plant), Line(plant.line("later"))
    of_line = keys.of_line(later)
    echoes.hire()
    plant.redis.rpush(of_line.wait_list, "ECHO001")
    echoes.plant.producer.put_body(
        json.dumps({"type": "wait_list", "payload": {"line": later}}).encode(), "wait_list"
    )
    time.sleep(SWEEPS)
    assert plant.redis.lrange(of_line.wait_list, 0, -1) == ["ECHO001"]

    echoes.lines([echoes.line, later])
    until(lambda: echoes.answered(later) == {"ECHO001"}, 2 * SWEEPS, "the new line is drained")
    assert plant.redis.exists(of_line.counts)
    echoes.lines([echoes.line], removed=[later])

    until(lambda: not plant.redis.keys(f"*{later}*"), SWEEPS, "the removed line leaves nothing")
    echoes.put("ECHO002")
    echoes.all_answered(["ECHO002"], 10.0)
    echoes.nothing_is_left()


def test_couriers_are_asked_beside_the_second_kind_as_ever(plant: Plant) -> None:
    acme = plant.courier()
    echoes, numbers = Echoes(plant), numbers_of(4)
    echoes.hire()
    echoes.put(*numbers)
    for number in numbers:
        plant.producer.put(acme, number, id=f"of-{number}")
    echoes.all_answered(numbers, 20.0)
    plant.endings.come(20.0)

    plant.held_to_limits()
    echoes.held_to_limits()
    assert {plant.endings.state(f"of-{number}") for number in numbers} == {"SUCCESS"}
    assert plant.redis.smembers(keys.TALLIED_SLUGS) == {acme}
