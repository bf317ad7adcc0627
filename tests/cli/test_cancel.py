"""Cancelling what waits."""

from __future__ import annotations

import json

import pytest
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


def waits(store: redis.Redis, slug: str, number: str, operation: str) -> None:
    """A request with an id, parked as lua/lib/record.lua describes it."""
    record = {"since": 1, "newest": [operation], "ids": 1}
    store.hset(f"wait_requests:{slug}", number, json.dumps(record))
    waiting = {"status": "WAITING", "tracking": f"{slug}:{number}", "at": 1}
    store.set(f"tracking:status:{operation}", json.dumps(waiting))
    store.rpush(f"wait_list:{slug}", number)
    store.sadd("wait_slugs", slug)


def cancelled(store: redis.Redis, operation: str) -> bool:
    status = store.get(f"tracking:status:{operation}")
    return status is not None and json.loads(status)["status"] == "CANCELLED"


def test_one_request_is_cancelled_by_its_id(run: Run, store: redis.Redis) -> None:
    waits(store, "usps", NUMBER, "order-1")
    done = run("cancel", "usps", NUMBER, "--id", "order-1")
    assert done.code == 0
    assert done.lines == [f"cancelled order-1 for usps {NUMBER}"]
    assert cancelled(store, "order-1")


@pytest.mark.parametrize("named", [("usps", "94000001"), ("dpd-uk", NUMBER)])
def test_an_id_of_another_parcel_is_refused_and_that_parcel_is_named(
    run: Run, store: redis.Redis, named: tuple[str, str]
) -> None:
    waits(store, "usps", NUMBER, "order-1")
    done = run("cancel", *named, "--id", "order-1")
    assert done.code == 2
    assert f"write: cancel usps {NUMBER} --id order-1" in done.out
    assert not cancelled(store, "order-1")


def test_an_unknown_id_is_refused_and_may_be_put_later(run: Run, store: redis.Redis) -> None:
    done = run("cancel", "usps", NUMBER, "--id", "ordr-1")
    assert done.code == 1
    assert f"no request with the id ordr-1 waits for usps {NUMBER}" in done.out
    assert not store.exists("tracking:status:ordr-1")


def test_an_id_that_has_ended_keeps_its_end(run: Run, store: redis.Redis) -> None:
    store.set("tracking:status:order-1", '{"status":"SUCCESS"}', ex=60)
    done = run("cancel", "usps", NUMBER, "--id", "order-1")
    assert done.code == 1
    assert done.lines == ["order-1 has already ended: SUCCESS"]
    as_json = run("cancel", "usps", NUMBER, "--id", "order-1", "--json").json[0]
    assert as_json == {
        "slug": "usps",
        "number": NUMBER,
        "id": "order-1",
        "cancelled": 0,
        "kept": "ended",
        "detail": "SUCCESS",
    }


def test_an_id_that_runs_is_not_cut_off(run: Run, store: redis.Redis) -> None:
    waits(store, "usps", NUMBER, "order-1")
    told = json.loads(store.get("tracking:status:order-1"))
    store.set("tracking:status:order-1", json.dumps(told | {"status": "RUNNING"}))
    done = run("cancel", "usps", NUMBER, "--id", "order-1")
    assert done.code == 1
    assert done.lines == ["order-1 is with the courier now; a call that runs is not cut off"]


def test_a_courier_that_does_not_exist_is_refused(offline: Run) -> None:
    assert offline("cancel", "nobody", NUMBER).code == 2
