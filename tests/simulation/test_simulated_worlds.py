"""Worlds of many seeds keep every promise, and a seed is the same world every time.

What the simulation found stands here too, each with the shortest way to see it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from portion import PORTION
from simulated.__main__ import ENOUGH_SEEDS
from simulated.batch import REPAIRS, live, live_through
from simulated.clockwork import Redis
from simulated.courier import Visit
from simulated.loop import Process
from simulated.plan import AT_A_DESTINATION, KINDS, OUTAGES, SlugPlan, plan_for
from simulated.scripting import Scripting
from simulated.world import World

from devstack.command import run_to_end
from limits.rules import Rules

REPOSITORY = Path(__file__).resolve().parents[2]
PATHS = (REPOSITORY, REPOSITORY / "tests" / "simulation", REPOSITORY / "tests" / "limits")
FIRST, SEEDS = 56, 8 * PORTION
"""So few need not meet everything; `make simulate` wants every kind from 300 on. These have much in
them: the clock that leaps, among others."""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What `make simulate` tells of some seeds, with the exit code."""
    paths = os.pathsep.join(map(str, PATHS))
    seeds = ["--seed", str(FIRST), "--seeds", str(SEEDS)]
    command = [sys.executable, "-m", "simulated", *seeds, "--json"]
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    ran = run_to_end(command, environment, REPOSITORY, seconds=120)
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout) | {"code": ran.returncode, "stderr": ran.stderr}


@pytest.mark.portion
def test_no_world_breaks_a_promise(told: dict[str, Any]) -> None:
    assert told["failed"] == {}, told["stderr"]
    assert told["code"] == 0
    assert told["seeds"] == SEEDS


def test_some_of_as_many_worlds_as_must_meet_every_fault_are_made_to_meet_each() -> None:
    drawn: set[str] = set()
    for plan in map(plan_for, range(ENOUGH_SEEDS)):
        drawn |= plan.rates.keys() | {f"destination {each.is_like}" for each in plan.services}
        drawn |= {plan.outage.kind} if plan.outage else set()

    assert {*KINDS, *AT_A_DESTINATION, *OUTAGES} <= drawn


@pytest.mark.prove
def test_the_worlds_have_most_kinds_of_faults_and_need_most_kinds_of_repair(
    told: dict[str, Any],
) -> None:
    came = [kind for kind in KINDS if told["faults"].get(kind)]
    needed = [kind for kind in REPAIRS if told["repairs"].get(kind)]

    assert len(came) >= 0.8 * len(KINDS)
    assert len(needed) >= 0.8 * len(REPAIRS)


def test_a_seed_is_the_same_run_every_time_in_every_process(told: dict[str, Any]) -> None:
    scripting = Scripting()

    digests = [live(seed, scripting).digest for seed in (FIRST + 2, FIRST + 5, FIRST + 2)]

    assert digests[:2] == [told["digests"][str(seed)] for seed in (FIRST + 2, FIRST + 5)]
    assert digests[2] == digests[0]


UNNEEDED = ("drain job put again", "lease expired", "lost")


@pytest.mark.portion
def test_where_nothing_breaks_nothing_is_repaired() -> None:
    """Who waits is asked for in time by those who know of it; the sweeper only looks."""
    scripting = Scripting()

    for seed in range(1, 1 + 3 * PORTION):
        calm = replace(plan_for(seed), rates={}, poison=0, refused="")

        outcome = live_through(calm, scripting)

        assert (seed, outcome.breaches) == (seed, ())
        assert {kind: outcome.repairs[kind] for kind in UNNEEDED} == dict.fromkeys(UNNEEDED, 0)


OF_GROUPS = ("point limits.halve:after", "point limits.ask_alone:after")


def test_numbers_that_spoil_calls_for_several_and_such_as_are_left_out_cost_no_other() -> None:
    """All else is calm: they are asked about in halves, or alone, and all others answered."""
    scripting, met = Scripting(), Counter[str]()

    for seed in (4, 8, 12):
        plan = plan_for(seed)
        slugs = tuple(replace(each, together=5, per_second=2) for each in plan.slugs)
        plan = replace(plan, rates={}, refused="", services=())
        quick = replace(plan, slugs=slugs, producing=2.0, left_out=0.3)

        outcome = live_through(quick, scripting)

        assert (seed, outcome.breaches) == (seed, ())
        met.update(outcome.repairs)
    assert [kind for kind in OF_GROUPS if not met[kind]] == []


@pytest.mark.parametrize("lease_seconds", [4.0, 60.0])
@pytest.mark.parametrize("script", ["take", "sweep"])
def test_calls_number_tells_no_call_whose_lease_has_ended(
    lease_seconds: float, script: str
) -> None:
    """Seed 5. The leases were gone as a whole before a script could take them off the counter."""
    redis, rules = Redis(), Rules(lease_seconds=lease_seconds)
    redis.run("admit", rules, "call-1", '{"number":"N001","job":"job-1"}', "")
    assert redis.text("calls_number:usps") == "1"

    redis.wait(lease_seconds + 0.5)
    args = {"take": ("take-1", "0", "0"), "sweep": ("sweep-1",)}
    redis.run(script, rules, *args[script])

    assert redis.text("calls_number:usps") is None


def test_a_clock_that_steps_back_makes_no_call_take_less_than_no_time() -> None:
    """Seed 171. What is counted in `tracking:counts` was negative, and the estimates with it."""
    redis, rules = Redis(), Rules(concurrent=1)
    redis.run("admit", rules, "call-1", '{"number":"N001","job":"job-1"}', "")
    redis.run("admit", rules, "call-2", '{"number":"N002","job":"job-2"}', "")

    redis.wait(-5.0)
    verdict = "{}\t" + json.dumps({"state": "ERROR", "observed": 1, "answered": False})
    redis.run("finish", rules, "call-1", verdict, "N001", "take-1", "0")

    assert redis.field("tracking:counts:usps", "call_us") == "0"


def test_a_promotion_takes_back_the_ends_that_nobody_was_told_of() -> None:
    """Seed 320. An end whose reply never arrived came again, and was taken for a second one."""
    world = World(plan_for(1), Scripting())
    world.space.replicated = True

    world.watch.ended["told"] = "SUCCESS"
    told = world.redis.done()
    assert told
    world.redis.answered(told)
    world.watch.ended["lost"] = "SUCCESS"
    world.redis.done()
    world.redis.promote()
    world.loop.dispose()

    assert world.watch.ended == {"told": "SUCCESS"}


@pytest.mark.parametrize(("waited", "breaches"), [(8.0, 1), (10.0, 0)])
def test_a_request_on_its_way_when_its_worker_came_to_stand_still_is_one_of_it(
    waited: float, breaches: int
) -> None:
    """Seed 324. The courier took it for one of a worker that runs, however long that stood still.

    Beyond its lease such a call is not judged (docs/reliability.md), until then it is.
    """
    plan = replace(plan_for(1), slugs=(SlugPlan("usps", 1, 2, 1_000_000),), rates={})
    world = World(plan, Scripting())
    for number, paused in (("ALWAYSMUM", True), ("N00001", False)):
        process, answer = Process(number, paused=paused), world.loop.create_future()
        visit = Visit("usps", (number,), process, world.loop.now + 9.0, answer)
        world.couriers._arrive(visit)  # noqa: SLF001 - what the loop would call
        world.loop.now += waited
    world.loop.dispose()

    assert len(world.trace.breaches) == breaches
