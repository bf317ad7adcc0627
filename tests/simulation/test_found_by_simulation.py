"""What the simulation found, each with the shortest way to see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from simulated.keyspace import Hash, Keyspace
from simulated.scripting import Scripting

from limits.codec import write_rules
from limits.keys import EPOCH, of_line
from limits.rules import Rules
from limits.script_file import BATCH, load
from tracking.request import Slug

USPS = Slug("usps")
SCRIPTING = Scripting()


class Redis:
    """A Redis in process whose clock goes when it is told to."""

    def __init__(self) -> None:
        self.now_us = 1_800_000_000_000_000
        self.space = Keyspace(lambda: self.now_us)
        self.space.put(EPOCH, "epoch 0")

    def wait(self, seconds: float) -> None:
        self.now_us += round(seconds * 1_000_000)

    def run(self, name: str, rules: Rules, *args: str) -> Any:
        common: Mapping[str, object] = {
            "epoch": "epoch",
            "token": "worker",
            "deaths": 3,
            "max_age_ms": 30_000,
        }
        written = write_rules(rules, dict(common)).decode()
        self.space.tick()
        text = load()[BATCH].text.encode().decode("latin-1")
        argv = ["1", f"{name} {2 + len(args)}", written, "1", "0", "[]", *args]
        (reply,) = SCRIPTING.run(self.space, text, [of_line(USPS).wait_list], argv)  # type: ignore[misc]
        return reply

    def field(self, key: str, name: str) -> str | None:
        fields = self.space.of(Hash, key)
        return fields.get(name) if fields else None

    def text(self, key: str) -> str | None:
        self.space.tick()
        return self.space.text(key)


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
