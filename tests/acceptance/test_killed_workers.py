"""A worker is killed (-9) at each named point of the flow: nothing is lost, no limit is broken.

Requests are put until the worker is dead; from then on nobody helps. Another worker takes over:
one that is hired afterwards, or one that ran all the time.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from plant import SHORT, Plant
from running_worker import RunningWorker, until

from devstack import judge
from devstack.judge import SECOND_NS
from service.worker.wiring.failpoints import FailPoint
from tracking.tally import tally_of

BURST_SECONDS = 2.6
"""Five requests are put in this time: they outrun the rate, and then nobody waits any more."""

TAKES_OVER = SHORT["limits.call_timeout_seconds"] + SHORT["limits.lease_seconds"] + 10.0
BUSY = 3.0
"""Seconds that a busy machine may need besides."""

DIES_WITHIN = 40.0


@dataclass(frozen=True)
class Death:
    """How a worker is brought to one point, and what holds it up there."""

    behaviour: dict[str, Any] = field(default_factory=dict)
    per_second: int = 2
    malformed: bool = False
    stopped: bool = False
    couriers: int = 1
    every_seconds: float = BURST_SECONDS
    together: int = 1
    grace_seconds: float | None = None


FAILING = {"fault": "status", "status": 500}
HANGING = {"fault": "hang"}
REFUSING = {"fault": "status", "status": 400, "ending": "3"}
SEVERAL = 5
"""Numbers in a call: the first two of a burst go alone, then those that wait together."""

DEATHS = {
    FailPoint.RESERVED: Death(),
    FailPoint.GRANTED: Death(),
    FailPoint.PARKED: Death(),
    FailPoint.DRAIN_PUT: Death(),
    FailPoint.ENDED: Death(),
    FailPoint.ANSWERED: Death(),
    FailPoint.STORED: Death(),
    FailPoint.FINISHED: Death(),
    # Who drains a courier that fails alone calls it: of two, each of two workers has one.
    FailPoint.FAILURE_STORED: Death(FAILING, per_second=10, couriers=2),
    FailPoint.RETRIED: Death(FAILING, per_second=10, couriers=2),
    # A number that fails for ever keeps its drainer, which may be the neighbour: of twelve lines
    # the one that is to die has some.
    FailPoint.HALVED: Death(REFUSING, couriers=12, every_seconds=0.6, together=SEVERAL),
    FailPoint.ASKED_ALONE: Death({"leaves_out": 0.5}, couriers=2, together=SEVERAL),
    # What runs still when the grace is over is handed back.
    FailPoint.HANDED_BACK: Death(HANGING, stopped=True, grace_seconds=0.3),
    FailPoint.RECORDED_AS_DEAD: Death(malformed=True),
    FailPoint.DELETED: Death(),
    FailPoint.DRAIN_RESERVED: Death(),
    FailPoint.TAKEN: Death(),
    FailPoint.HANDED_OVER: Death(stopped=True),
    # Only a courier that needs it is swept, and only by the worker that comes first. Every 0.4 s
    # one of these has come to rest: there is one for this worker while the others' requests wait.
    FailPoint.SWEPT: Death(couriers=12, every_seconds=0.4),
}


ALONE = {
    FailPoint.GRANTED,
    FailPoint.STORED,
    FailPoint.RETRIED,
    FailPoint.TAKEN,
    *(point for point, death in DEATHS.items() if death.stopped),
}
"""Points at which a worker dies that is the only one: at all others it has a neighbour."""

GROUPS = {
    FailPoint.ANSWERED: Death(together=SEVERAL),
    FailPoint.STORED: Death(together=SEVERAL),
    FailPoint.FINISHED: Death(together=SEVERAL),
    FailPoint.RETRIED: Death(FAILING, per_second=10, couriers=2, together=SEVERAL),
    FailPoint.TAKEN: Death(together=SEVERAL),
}
"""The worker dies at its third visit: the first two are of numbers that went alone."""


def test_every_fail_point_is_visited_by_this_file() -> None:
    assert set(DEATHS) == set(FailPoint)


@pytest.mark.parametrize("point", [point for point in DEATHS if point in ALONE])
def test_what_a_killed_worker_held_ends_with_the_next_worker(
    plant: Plant, point: FailPoint
) -> None:
    slugs = couriers(plant, DEATHS[point])
    doomed = plant.hire(FAILPOINT=point).ready()
    feed_until_dead(plant, slugs, doomed, DEATHS[point])
    next_one = plant.hire().ready()

    judge_the_end(plant, slugs, next_one)


@pytest.mark.prove
@pytest.mark.parametrize("point", [point for point in DEATHS if not DEATHS[point].stopped])
def test_what_a_killed_worker_held_ends_with_its_neighbour(plant: Plant, point: FailPoint) -> None:
    slugs = couriers(plant, DEATHS[point])
    doomed, neighbour = plant.hire(FAILPOINT=point), plant.hire()
    doomed.ready()
    neighbour.ready()
    feed_until_dead(plant, slugs, doomed, DEATHS[point])

    judge_the_end(plant, slugs, neighbour)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=() if each is FailPoint.STORED else pytest.mark.prove)
        for each in GROUPS
    ],
)
def test_what_a_killed_worker_held_of_a_group_ends_with_the_next_worker(
    plant: Plant, point: FailPoint
) -> None:
    slugs = couriers(plant, GROUPS[point])
    doomed = plant.hire(FAILPOINT=f"{point}:3").ready()
    feed_until_dead(plant, slugs, doomed, GROUPS[point])
    next_one = plant.hire().ready()

    judge_the_end(plant, slugs, next_one)
    calls = [call for slug in slugs for call in plant.calls(slug)]
    assert judge.most_numbers_in_a_call(calls) > 1


def couriers(plant: Plant, death: Death) -> list[str]:
    """Couriers as the death wants them; requests outlive their failures."""
    plant.settings["retry.attempts"] = 100
    if death.grace_seconds is not None:
        plant.settings["worker.grace_seconds"] = death.grace_seconds
    return [
        plant.courier(
            latency=0.1, per_second=death.per_second, together=death.together, **death.behaviour
        )
        for _ in range(death.couriers)
    ]


def feed_until_dead(plant: Plant, slugs: list[str], doomed: RunningWorker, death: Death) -> None:
    """Put requests until the worker was killed, then see to it that it is not started again."""
    deadline = time.monotonic() + DIES_WITHIN
    turn = 0
    while not is_dead(doomed, death):
        assert time.monotonic() < deadline, "the fail point was never reached"
        slug = slugs[turn % len(slugs)]
        burst(plant, slug, turn, death)
        if death.stopped and turn == 0:
            burst(plant, slug, -1, death)
            until(lambda slug=slug: drains(plant, slug), 5.0, "the worker drains")
            doomed.terminate()
        pause = time.monotonic() + death.every_seconds
        while time.monotonic() < pause and not is_dead(doomed, death):
            time.sleep(0.02)
        turn += 1
    doomed.stop()
    for slug in slugs:
        plant.site.behave(slug, latency=0.1)


def drains(plant: Plant, slug: str) -> bool:
    """Whether a process has the duty to look again, and not the tube."""
    duty = plant.redis.get(f"wait_drainer:{slug}")
    return duty is not None and not str(duty).startswith("tube:")


def burst(plant: Plant, slug: str, turn: int, death: Death) -> None:
    """Four new numbers, two of them with ids, and one that was asked for before."""
    for step in range(4):
        number = f"AB{turn + 1:03d}{step}"
        named = {"id": f"{slug}-{turn}-{step}"} if step % 2 else {}
        plant.producer.put(slug, number, **named)
    plant.producer.put(slug, "AB0010", id=f"{slug}-again-{turn}")
    if death.malformed:
        plant.producer.put_body(b"not a request")


def is_dead(worker: RunningWorker, death: Death) -> bool:
    """Whether SIGKILL ended it, and nobody sent it but the worker itself."""
    if death.stopped:
        # Its parent was asked to stop, so it says nothing and ends with 1.
        ended = worker.process.poll() == 1
        assert not worker.events("worker stopped", worker=child_of(worker)), "it ended in order"
    else:
        ended = bool(worker.events("process died", code=-9))
    if ended:
        assert not worker.events("process was silent and is killed")
        assert not worker.events("process did not stop and is killed")
    return ended


def child_of(worker: RunningWorker) -> str:
    """The name under which the worker process logs."""
    name: str = worker.events("worker started")[0]["worker"]
    return name


def judge_the_end(plant: Plant, slugs: list[str], survivor: RunningWorker) -> None:
    """Everything ends by itself, every slot comes back, and the courier saw no more than it may."""
    began = time.monotonic()
    waiting = len(plant.endings.missing())
    plant.endings.come(TAKES_OVER + waiting / 2 + BUSY)
    seconds = f"{time.monotonic() - began:.1f} s"
    plant.measured("until a killed worker's requests have ended", [seconds])

    plant.held_to_limits()
    malformed = list(plant.dead.find({"slug": None}))
    assert {each["job"] for each in malformed} == set(plant.producer.take_buried())
    assert all(each["reason"] == "bad_json" for each in malformed)
    assert not plant.dead.count_documents({"slug": {"$in": slugs}})
    spans = [each for slug in slugs for each in plant.redis.keys(f"tracking:stats2:{slug}:*")]
    told = tally_of(map(plant.redis.hgetall, spans))
    assert told.operations == len(plant.producer.acknowledged)
    assert survivor.process.poll() is None


LONG_LIST = 10_000


def who_answered_last(worker: RunningWorker) -> int:
    """The process that drains: it takes the next call with every answer."""
    name = worker.events("request answered")[-1]["worker"]
    return int(name.rsplit(":", 1)[1])


def in_flight(plant: Plant, slug: str) -> int:
    return sum(call.ended_ns is None for call in plant.calls(slug))


def arrivals_since(plant: Plant, slug: str, instant_ns: int) -> int:
    return sum(call.arrived_ns >= instant_ns for call in plant.calls(slug))


def test_slots_of_a_killed_worker_come_back_under_steady_traffic(plant: Plant) -> None:
    """F12: each new call renewed the expiry of a leaked count, which so never came back."""
    slug = plant.courier(concurrent=4, per_second=8, latency=1.2)
    worker = plant.hire(processes=2).ready()
    for number in range(60):
        plant.producer.put(slug, f"AB{number:06d}")
    until(lambda: worker.events("request answered"), 10.0, "calls are answered")
    until(lambda: in_flight(plant, slug) == 4, 5.0, "all slots are taken")
    worker.kill_child(who_answered_last(worker))
    until(lambda: in_flight(plant, slug) < 4, 2.0, "the courier loses its callers")

    # The slots of the dead are held until their leases end, 5 s after the grant; not longer.
    until(lambda: in_flight(plant, slug) == 4, 10.0, "all slots are taken again")
    plant.endings.come(40.0)
    plant.held_to_limits()


def test_a_worker_that_stands_still_is_killed_and_others_go_on(plant: Plant) -> None:
    slug = plant.courier(concurrent=4, per_second=8, latency=0.5)
    worker = plant.hire(processes=2).ready()
    for number in range(60):
        plant.producer.put(slug, f"AB{number:06d}")
    until(lambda: worker.events("request answered"), 10.0, "calls are answered")
    frozen = who_answered_last(worker)
    os.kill(frozen, signal.SIGSTOP)

    until(lambda: worker.events("process was silent and is killed", pid=frozen), 15.0, "a kill")
    plant.endings.come(40.0)
    plant.held_to_limits()


def test_a_list_of_ten_thousand_goes_on_within_seconds_after_its_drainer_died(plant: Plant) -> None:
    """F8: timers for the whole list died with their process; its flag stayed up for 83 minutes."""
    slug = plant.courier(latency=0.1)
    worker = plant.hire(processes=2).ready()
    plant.redis.rpush(f"wait_list:{slug}", *(f"AB{number:06d}" for number in range(LONG_LIST)))
    until(lambda: worker.events("request answered"), 20.0, "the list is found and drained")
    until(lambda: len(plant.calls(slug)) >= 6, 10.0, "it is drained at the rate")
    worker.kill_child(who_answered_last(worker))
    killed = time.monotonic_ns()

    def goes_on() -> bool:
        latest = max(killed, time.monotonic_ns() - 3 * SECOND_NS)
        return arrivals_since(plant, slug, latest) >= 5

    until(goes_on, 13.0, "calls start at the full rate again")
    seconds = (time.monotonic_ns() - killed) / SECOND_NS
    plant.measured("until a list of 10,000 goes on at the full rate", [f"{seconds:.1f} s"])
    assert worker.stop() == 0
    plant.held_to_limits()
    assert plant.redis.llen(f"wait_list:{slug}") > LONG_LIST - 100
