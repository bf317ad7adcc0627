"""info --running: the calls in flight."""

from __future__ import annotations

import json
import time

import redis
from command_line import Run

NUMBER = "9405903699300184125060"
WHO = {"token": "tok-1", "host": "host-1", "pid": 11, "version": "9.9.9", "since": 0.0}


def test_info_lists_the_calls_in_flight_and_those_that_never_ended(
    run: Run, store: redis.Redis
) -> None:
    assert run("info", "--running").lines == ["no call runs"]
    store.zadd("tracking:workers", {json.dumps(WHO): time.time() * 1000 + 10_000})
    began_us = (time.time() - 300) * 1e6
    record = {"n": NUMBER, "at": f"{began_us:.0f}", "newest": ["a", "b", "c"], "ids": 200}
    later = {"n": "N002", "at": f"{began_us + 9e6:.0f}", "anon": {"id": "job-7"}, "tries": 2}
    store.sadd("wait_slugs", "usps")
    for call, each in {"tok-1-8": later, "tok-1-7": record}.items():
        store.hset("wait_inflight:usps", call, json.dumps(each))
        store.hset("wait_inflight:usps", f"={each['n']}", call)
    store.zadd("calls_leases:usps", {"tok-1-7": 9e15})

    first, second = run("info", "--running").lines[1:]

    assert "5 min" in first
    assert "a, b and 198 more" in first
    assert first.endswith("host-1 11")
    assert "over: a sweep brings it back" in second
    (told,) = run("info", "--running", "--json").json
    assert [(each["slug"], each["number"], each["attempt"]) for each in told["running"]] == [
        ("usps", NUMBER, 1),
        ("usps", "N002", 3),
    ]
    assert told["running"][1]["operations"] == ["usps:N002:job-7"]
    assert told["running"][1]["lease_seconds"] is None
    times = [each["seconds"] for each in told["running"]] + [told["running"][0]["lease_seconds"]]
    assert times == [round(seconds, 3) for seconds in times]
    assert run("info", "fedex", "--running").lines == ["no call runs"]
