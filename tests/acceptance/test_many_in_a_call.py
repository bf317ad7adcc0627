"""Thirty numbers in a call: all of a courier's rate is used, and a bad number spoils no other.

Where times are judged (tests/portion.py) thousands of numbers go, by production's own times.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from plant import REPOSITORY, SHORT, Plant
from portion import TIMES
from running_worker import RunningWorker, until

from devstack import judge
from devstack.judge import SECOND_NS, Call
from devstack.site.behaviour import Behaviour, is_left_out
from devstack.site.shapes import parcel
from limits.keys import WORKERS

REAL = {
    "limits.call_timeout_seconds": 30.0,
    "limits.lease_seconds": 60.0,
    "retry.first_seconds": 10.0,
    "retry.cap_seconds": 3_600.0,
    "worker.grace_seconds": 35.0,
}
ANSWERED = {"last_checked_at": {"$ne": None}, "error": None}
BAD = "AB000100"
TOGETHER = 30
NUMBERS = 3_000 if TIMES else 240
FULL_CALLS = NUMBERS // TOGETHER
ON_THE_WAY = FULL_CALLS // 2 if TIMES else 2
"""Calls after which a worker is killed: in the middle, where there is the time."""
LATENCY = 0.2
PAUSED = 300
WAIT = 400.0 if TIMES else 40.0
LEAST_A_SECOND = 57.0
AFTER_THE_LEASE = 30.0
"""Seconds after the lease of a killed worker in which its numbers are to be stored."""


def open_courier(plant: Plant, **behaviour: object) -> str:
    """A courier that takes thirty, with production's limits; all numbers lie in the tube."""
    if TIMES and not plant.slugs:
        plant.settings |= REAL
        plant.hasty_beanstalkd()
    plant.producer.pause(PAUSED)
    slug = plant.courier(together=TOGETHER, latency=LATENCY, **behaviour)
    plant.producer.put_all(slug, numbers())
    return slug


def hire(plant: Plant, count: int = 3 if TIMES else 1, breaks_by: str = "") -> None:
    """Workers who all begin now; their reader breaks on the bad number, if you say how."""
    brittle = (sys.executable, str(Path(__file__).with_name("brittle_worker.py")), "run")
    path = os.pathsep.join((str(REPOSITORY), os.environ.get("PYTHONPATH", "")))
    given = {"BREAKS_ON": BAD, "BREAKS_BY": breaks_by, "PYTHONPATH": path}
    hired = [
        plant.hire(command=brittle, **given) if breaks_by else plant.hire() for _ in range(count)
    ]
    for worker in hired:
        worker.ready()
    plant.producer.pause(0)


def numbers() -> list[str]:
    return [f"AB{at:06d}" for at in range(NUMBERS)]


def answered(plant: Plant, slug: str) -> int:
    """How many numbers of a courier are stored with an answer."""
    return plant.tracking.count_documents(ANSWERED | {"slug": slug})


def until_answered(plant: Plant, slug: str, count: int) -> None:
    until(lambda: answered(plant, slug) >= count, WAIT, f"{count} answers", step=0.2)


def numbers_of(calls: Iterable[Call]) -> set[str]:
    return {number for call in calls for number in call.numbers}


def caller(plant: Plant, slug: str, since_ns: int) -> RunningWorker | None:
    """The worker whose call for several numbers has arrived since then, and waits, if any has."""
    seen = [call for call in plant.calls(slug) if call.arrived_ns > since_ns]
    running = [call for call in seen if call.riders and not call.ended_ns]
    if not running:
        return None
    made = str(plant.redis.hget(f"wait_inflight:{slug}", f"={running[0].number}"))
    told = [json.loads(each) for each in plant.redis.zrange(WORKERS, 0, -1)]
    pids = {each["pid"] for each in told if made.startswith(each["token"])}
    return next((worker for worker in plant.workers if pids & set(worker.children)), None)


def lost_calls(plant: Plant, slug: str) -> list[Call]:
    """What ended without an answer, as its caller was gone."""
    return [call for call in plant.calls(slug) if call.ended_ns and call.status is None]


def only_held_ones_run(plant: Plant, slug: str, held_ns: int) -> bool:
    """Whether all that was answered is stored and has ended, also in Redis."""
    calls = plant.calls(slug)
    held = numbers_of(each for each in calls if each.arrived_ns > held_ns and not each.ended_ns)
    fields = plant.redis.hkeys(f"wait_inflight:{slug}")
    running = {field[1:] for field in fields if field.startswith("=")}
    told = numbers_of(call for call in calls if call.status)
    return running <= held and answered(plant, slug) == len(told)


def parcels_a_second(calls: Sequence[Call]) -> float:
    """From the first call to the last one that asked for something new.

    The first two calls cost no time, so that their numbers do not count.
    """
    known = numbers_of(calls[:2])
    count, last = 0, calls[0]
    for call in calls[2:]:
        if new := set(call.numbers) - known:
            known |= new
            count, last = count + len(new), call
    return count * SECOND_NS / (last.arrived_ns - calls[0].arrived_ns)


def judge_what_is_stored(plant: Plant, slug: str, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Each of the numbers has one document, with the answer to this very number."""
    documents = list(plant.tracking.find(ANSWERED | {"slug": slug}))
    assert {each["tracking_number"] for each in documents} == set(wanted)
    assert all(each["tag"] == parcel.scans(each["tracking_number"])[-1].stage for each in documents)
    return documents


@pytest.mark.measures
def test_a_killed_workers_groups_are_asked_again_and_each_number_is_stored_once(
    plant: Plant,
) -> None:
    plant.settings |= {"limits.call_timeout_seconds": 5.0, "limits.lease_seconds": 10.0}
    slug = open_courier(plant)
    hire(plant, count=3)
    until(lambda: len(plant.calls(slug)) > ON_THE_WAY, WAIT, "some of the calls", step=0.02)
    plant.site.behave(slug, held=True)
    held_ns = time.monotonic_ns()
    victim = until(lambda: caller(plant, slug, held_ns), 5.0, "a group is asked for", step=0.02)
    # What was answered, and had not ended when its worker died, is asked once more, as it must be.
    until(lambda: only_held_ones_run(plant, slug, held_ns), 4.0, "the others ended", step=0.02)
    victim.vanish()
    killed_ns = time.monotonic_ns()
    until(lambda: lost_calls(plant, slug), 5.0, "the courier loses its caller", step=0.02)
    plant.site.behave(slug, latency=LATENCY)
    plant.endings.come(WAIT)

    plant.held_to_limits()
    calls = plant.calls(slug)
    lost = lost_calls(plant, slug)
    again = judge.calls_per_number(call for call in calls if call.status)
    documents = judge_what_is_stored(plant, slug, numbers())
    assert len(documents) == NUMBERS
    assert judge.most_numbers_in_a_call(lost) > 1, "nobody held a group"
    assert judge.most_numbers_in_a_call(calls) == TOGETHER
    assert set(again.values()) == {1}
    assert {each["tracked_count"] for each in documents} == {1}
    # Two of one number that find nobody waiting; a lost group comes back in halves.
    assert len(calls) <= FULL_CALLS + 6 + 3 * len(lost)
    back_ns = max(call.ended_ns or 0 for call in calls if set(call.numbers) & numbers_of(lost))
    rate, back = parcels_a_second(calls), (back_ns - killed_ns) / SECOND_NS
    plant.measured("parcels a second of a courier that takes thirty", [f"{rate:.1f}"])
    plant.measured("until a killed worker's groups are answered", [f"{back:.1f} s"])
    plant.measured("calls for them, one worker killed", [f"{len(calls)} for {NUMBERS:,}"])
    if TIMES:
        assert rate >= LEAST_A_SECOND
        assert back <= REAL["limits.lease_seconds"] + AFTER_THE_LEASE
        assert len(calls) <= FULL_CALLS * 1.3


SPOILT: dict[str, dict[str, object]] = {
    "its call is a 400": {"fault": "status", "status": 400},
    "its call is a 422": {"fault": "status", "status": 422},
    "its call has half an answer": {"fault": "truncated"},
    "its call has a web page for an answer": {"fault": "garbage"},
    "its value is no tracking": {"fault": "senseless"},
}


def test_a_bad_number_keeps_none_of_its_neighbours_from_being_stored(plant: Plant) -> None:
    slugs = {open_courier(plant, numbers=[BAD], **SPOILT[what]): what for what in SPOILT}
    hire(plant)
    for slug, what in slugs.items():
        until_answered(plant, slug, NUMBERS - 1)
        judge_few_calls(plant, slug, what)
        judge_what_is_stored(plant, slug, set(numbers()) - {BAD})


@pytest.mark.prove
@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param({"fault": "status", "status": 500}, id="its call is a 500"),
        pytest.param({"fault": "hang"}, id="its call hangs"),
    ],
)
def test_a_number_that_makes_each_call_fail_as_an_outage_does_is_by_itself_before_long(
    plant: Plant, behaviour: dict[str, object]
) -> None:
    plant.settings["limits.call_timeout_seconds"] = 1.5  # so long the courier hangs each time
    slug = open_courier(plant, numbers=[BAD], **behaviour)
    hire(plant)
    until_answered(plant, slug, NUMBERS - 1)

    judge_what_is_stored(plant, slug, set(numbers()) - {BAD})
    plant.held_to_limits()


@pytest.mark.prove
def test_a_number_on_which_the_parser_breaks_keeps_none_of_its_neighbours_from_being_stored(
    plant: Plant,
) -> None:
    slug = open_courier(plant)
    hire(plant, breaks_by="an error")
    until_answered(plant, slug, NUMBERS - 1)

    judge_few_calls(plant, slug, "the parser breaks")
    judge_what_is_stored(plant, slug, set(numbers()) - {BAD})


@pytest.mark.skipif(not TIMES, reason="a minute of leases: `make chaos` waits for them")
def test_a_number_that_kills_its_workers_dies_alone(plant: Plant) -> None:
    plant.settings["retry.deaths"] = 2
    # One after the other: a call that runs beside the one that kills is lost with it.
    slug = open_courier(plant, per_second=1)
    plant.settings |= SHORT
    hire(plant, count=3, breaks_by="death")
    until(lambda: plant.dead.find_one({"number": BAD}), 120.0, "it is recorded as dead")
    until_answered(plant, slug, NUMBERS - 1)

    record = plant.dead.find_one({"slug": slug}) or {}
    assert (record["number"], record["reason"]) == (BAD, "workers_vanished")
    assert plant.dead.count_documents({"slug": slug}) == 1
    judge_what_is_stored(plant, slug, set(numbers()) - {BAD})
    plant.held_to_limits()


def test_what_an_answer_leaves_out_is_asked_alone_and_noted(plant: Plant) -> None:
    share = Behaviour(leaves_out=0.05)
    slug = open_courier(plant, leaves_out=0.05, reorders=True)
    hire(plant)
    plant.endings.come(WAIT)

    left_out = {number for number in numbers() if is_left_out(number, share)}
    judge_few_calls(plant, slug, "five in a hundred are left out", len(left_out))
    documents = judge_what_is_stored(plant, slug, numbers())
    alone = numbers_of(call for call in plant.calls(slug) if not call.riders)
    noted = {each["tracking_number"] for each in documents if each.get("asked_alone")}
    assert left_out <= alone
    assert noted <= left_out
    # Those of them that were asked alone from the beginning were left out by nobody.
    assert len(left_out - noted) <= 2


def test_a_failure_of_the_whole_call_is_charged_to_nobody_who_rode(plant: Plant) -> None:
    plant.settings["retry.attempts"] = 1
    slug = open_courier(plant, fault="status", status=503, first=3)
    hire(plant)
    plant.endings.come(WAIT)

    judge_what_is_stored(plant, slug, numbers())
    assert not plant.dead.count_documents({})
    plant.held_to_limits()


def judge_few_calls(plant: Plant, slug: str, what: str, alone: int = 0) -> None:
    """Assert that the limits are kept, and that at most three times the full calls were made.

    Of few numbers some may be left out more often: as many are `alone`.
    """
    plant.held_to_limits()
    calls = plant.calls(slug)
    plant.measured("calls for numbers of thirty a call", [f"{len(calls)} for {NUMBERS:,}: {what}"])
    assert judge.most_numbers_in_a_call(calls) == TOGETHER
    assert len(calls) <= (3 * FULL_CALLS if TIMES else max(3 * FULL_CALLS, FULL_CALLS + alone + 6))
