"""Cancelling what waits."""

from __future__ import annotations

import redis
from command_line import Run

NUMBER = "9405903699300184125060"


def test_what_waits_for_a_number_is_cancelled(run: Run, store: redis.Redis) -> None:
    store.rpush("wait_list:usps", "94000001", NUMBER)
    done = run("cancel", "usps", f"9405-{NUMBER[4:]}")
    assert done.code == 0
    assert done.lines == [f"cancelled 1 for usps {NUMBER}"]
    assert store.lrange("wait_list:usps", 0, -1) == ["94000001"]


def test_nothing_that_waits_is_a_negative_finding(run: Run) -> None:
    done = run("cancel", "usps", NUMBER, "--json")
    assert done.code == 1
    assert done.json == [{"slug": "usps", "number": NUMBER, "cancelled": 0}]


def test_a_request_cancelled_by_its_id_before_a_worker_saw_it_stays_cancelled(run: Run) -> None:
    assert run("cancel", "usps", NUMBER, "--id", "order-1").code == 0
    assert run("show", "--id", "order-1").lines[0].startswith("order-1: CANCELLED")


def test_a_courier_that_does_not_exist_is_refused(offline: Run) -> None:
    assert offline("cancel", "nobody", NUMBER).code == 2
