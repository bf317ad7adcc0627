"""`show` lists the requests of a parcel, and finds each by the id that it lists."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

import pytest
import redis
from command_line import Run

NUMBER = "9405903699300184125060"


def test_show_lists_the_requests_of_a_parcel(run: Run, store: redis.Redis) -> None:
    name = f"usps:{NUMBER}"
    waits = {"status": "WAITING", "tracking": name, "at": 1}
    output = {"code": "courier_down", "message": "503"}
    ended = waits | {"status": "ERROR", "startedAt": "A", "finishedAt": "Z", "output": output}
    store.set("tracking:status:order-1", json.dumps(waits))
    store.set("tracking:status:order-0", json.dumps(ended), ex=60)
    store.zadd(f"tracking:operations:{name}", {"order-0": 2, "older": 1})
    record = {"since": 1, "newest": ["order-1"], "ids": 1, "anon": {"id": "job", "count": 2}}
    store.hset("wait_requests:usps", NUMBER, json.dumps(record))
    store.rpush("wait_list:usps", NUMBER)

    rows = [line.split() for line in run("show", "usps", NUMBER).lines[-5:]]

    assert rows == [
        ["request", "state", "started", "finished", "outcome"],
        ["order-1", "WAITING"],
        [f"{name}:job", "WAITING"],
        ["order-0", "ERROR", "A", "Z", "courier_down:", "503"],
        ["older", "ended"],
    ]
    (told,) = run("show", "usps", NUMBER, "--json").json
    assert [each["id"] for each in told["operations"]] == [row[0] for row in rows[1:]]
    assert told["operations"][2] == {"id": "order-0", **{k: ended[k] for k in ended if k != "at"}}
    assert run("show", "--id", f"{name}:job").lines[0] == f"{name}:job: WAITING"


def archived(operation: str, day: int, **other: Any) -> dict[str, Any]:
    """One that ended on a day of March, as the archiver stores it."""
    at = dt.datetime(2026, 3, day, 12, tzinfo=dt.UTC)
    attempt = {"at": at, "outcome": "answered", "http_status": 200, "ms": 212}
    return {
        "_id": f"{operation}@{round(at.timestamp() * 1000)}",
        "id": operation,
        "slug": "usps",
        "number": NUMBER,
        "state": "SUCCESS",
        "output": {"tag": "InTransit", "checkpoints": day},
        "admitted_at": at,
        "started_at": at,
        "finished_at": at,
        "attempts": [attempt],
        **other,
    }


def test_an_operation_that_redis_does_not_know_any_more_is_found_in_the_archive(
    run: Run, collections: Any
) -> None:
    collections.operations.insert_many(
        [archived("order-1", 1), archived("order-1", 2, resend_of="order-0")]
    )

    done = run("show", "--id", "order-1")

    assert done.code == 0
    assert done.lines == [
        "order-1: SUCCESS  InTransit, 2 checkpoints",
        f"  tracking    usps:{NUMBER}",
        "  startedAt   2026-03-02T12:00:00.000Z",
        "  finishedAt  2026-03-02T12:00:00.000Z",
        "  resend_of   order-0",
        "  attempt     2026-03-02T12:00:00.000Z  answered (HTTP 200, 212 ms)",
    ]
    (told,) = run("show", "--id", "order-1", "--json").json
    assert told["operation"]["attempts"] == [
        {"at": "2026-03-02T12:00:00.000Z", "outcome": "answered", "http_status": 200, "ms": 212}
    ]
    assert run("show", "--id", "order").code == 1


def test_what_redis_knows_of_an_id_is_newer_than_the_archive(
    run: Run, store: redis.Redis, collections: Any
) -> None:
    collections.operations.insert_one(archived("order-1", 1))
    store.set("tracking:status:order-1", json.dumps({"status": "QUEUED"}))

    assert run("show", "--id", "order-1").lines[0] == "order-1: QUEUED"


def test_the_requests_of_a_parcel_are_listed_with_those_of_the_archive(
    run: Run, store: redis.Redis, collections: Any
) -> None:
    name = f"usps:{NUMBER}"
    at = "2026-03-03T12:00:00.000Z"
    ended = {"status": "ERROR", "tracking": name, "at": 1, "finishedAt": at}
    store.set("tracking:status:order-3", json.dumps(ended))
    store.zadd(f"tracking:operations:{name}", {"order-3": 2, "order-2": 1})
    collections.operations.insert_many(
        [archived("order-3", 3), archived("order-2", 2), archived("order-3", 1)]
        + [archived(f"older-{n}", 1, _id=str(n)) for n in range(30)]
    )

    (told,) = run("show", "usps", NUMBER, "--json").json
    lines = run("show", "usps", NUMBER).lines

    first = [(each["id"], each["status"]) for each in told["operations"][:2]]
    assert first == [("order-3", "ERROR"), ("order-2", "SUCCESS")]
    assert sorted(each["id"] for each in told["operations"][2:]) == sorted(
        ["order-3", *(f"older-{n}" for n in range(30))]
    )
    assert lines[-1] == "and 13 before these: --json lists up to 1,000"


def test_show_tells_of_one_request_where_it_waits_and_what_keeps_it(
    run: Run, store: redis.Redis
) -> None:
    store.zadd("tracking:workers", {"{}": time.time() * 1000 + 60_000})
    for n in range(9):
        record = {"since": 1, "newest": [f"order-{n}"], "ids": 1, "position": n}
        store.hset("wait_requests:usps", f"9400000{n}", json.dumps(record))
        waits = {"status": "WAITING", "tracking": f"usps:9400000{n}", "at": 1}
        store.set(f"tracking:status:order-{n}", json.dumps(waits))
        store.rpush("wait_list:usps", f"9400000{n}")

    done = run("show", "--id", "order-8")
    (told,) = run("show", "--id", "order-8", "--json").json
    (look,) = run("info", "--json").json

    assert "  request     waits in the manual list, 8 ahead, in about 4 s" in done.lines
    assert "  bound by    2 calls a second are allowed" in done.lines
    place = told["place"]
    assert (place["ahead"], place["bound_by"]) == (8, "rate")
    assert place["eta_seconds"] == place["until_seconds"] == pytest.approx(4 * 1.02)
    assert look["couriers"][0]["last_starts_seconds"] == pytest.approx(4 * 1.02)
