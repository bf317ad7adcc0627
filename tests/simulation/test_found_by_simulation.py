"""What the simulation found, each with the shortest way to see it."""

from __future__ import annotations

import json

import pytest
from simulated.clockwork import Redis
from simulated.plan import plan_for
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
