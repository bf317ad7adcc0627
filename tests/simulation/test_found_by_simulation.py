"""What the simulation found, each with the shortest way to see it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from simulated.clockwork import Redis
from simulated.courier import Visit
from simulated.loop import Process
from simulated.plan import SlugPlan, plan_for
from simulated.scripting import Scripting
from simulated.world import World

from limits.rules import Rules


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
    verdict = json.dumps({"state": "ERROR", "output": "{}", "observed": 1, "answered": False})
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
        visit = Visit("usps", number, process, world.loop.now + 9.0, answer)
        world.couriers._arrive(visit)  # noqa: SLF001 - what the loop would call
        world.loop.now += waited
    world.loop.dispose()

    assert len(world.trace.breaches) == breaches
