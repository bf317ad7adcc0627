"""`show`: what is known about a number, and about a request by its id."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

import pytest
import redis
from command_line import Run

from service import PROGRAM

NUMBER = "9405903699300184125060"


CHECKED = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def tracked(collections: Any, **members: Any) -> None:
    document = {
        "_id": f"usps:{NUMBER}",
        "slug": "usps",
        "tracking_number": NUMBER,
        "tag": "InTransit",
        "subtag": "InTransit_001",
        "checkpoints": [
            {"checkpoint_time": "2026-11-18T08:00:00", "message": "first", "tag": "InfoReceived"},
            {
                "checkpoint_time": "2026-11-19T09:30:00",
                "checkpoint_offset": "-05:00",
                "message": "second \x1b[2J",
                "tag": "InTransit",
                "city": "ALBANY",
                "country_name": "USA",
            },
        ],
        "error": None,
        "last_checked_at": CHECKED,
    }
    collections.tracking.insert_one(document | members)


def test_show_prints_the_newest_checkpoint_first(run: Run, collections: Any) -> None:
    tracked(collections)
    done = run("show", "usps", f" {NUMBER[:4]}-{NUMBER[4:]} ".lower())
    assert done.code == 0
    assert done.lines[0] == f"usps {NUMBER}: InTransit (InTransit_001)"
    rows = [line for line in done.lines if line.startswith("2026-11-1")]
    assert [row.split()[0] for row in rows] == ["2026-11-19T09:30:00-05:00", "2026-11-18T08:00:00"]
    assert "ALBANY, USA" in rows[0]
    assert "\x1b" not in done.out


def test_show_prints_what_another_account_has_of_a_parcel(run: Run, collections: Any) -> None:
    tracked(collections, _id=f"usps:{NUMBER}@shop", account="shop")
    assert "no answer is stored" in run("show", "usps", NUMBER).out
    assert "InTransit" in run("show", "usps", NUMBER, "--account", "shop").lines[0]


def test_show_tells_the_details_of_a_parcel_and_none_that_it_lacks(
    run: Run, collections: Any
) -> None:
    told = {"service": "Ground", "reference": "Order 7", "weight_grams": 1250}
    tracked(
        collections,
        **told,
        sub_parcels=["B", "C"],
        proof_of_delivery="https://proof.example/7",
        fields={"tracking_postal_code": "8000", "tracking_state": "ZH"},
    )
    collections.tracking.insert_one({"_id": "usps:OLDER", "tag": "InTransit", "checkpoints": []})

    lines = [line.strip() for line in run("show", "usps", NUMBER).lines]
    assert "weight       1.25 kg" in lines
    assert "parcels      B, C" in lines
    assert "asked with   postal_code 8000, state ZH" in lines
    assert "proof        https://proof.example/7" in lines
    older = run("show", "usps", "OLDER").out
    assert not {"weight", "parcels", "proof", "service"} & set(older.split())


def test_show_tells_that_a_number_is_asked_about_alone(run: Run, collections: Any) -> None:
    tracked(collections, asked_alone=True)
    lines = [line.strip() for line in run("show", "usps", NUMBER).lines]
    assert "asked        alone, as answers for several numbers leave it out" in lines


def test_show_tells_where_a_request_waits(run: Run, store: redis.Redis) -> None:
    store.rpush("wait_list:usps", "94000001", NUMBER)
    done = run("show", "usps", NUMBER, "--json")
    assert done.json[0]["tracking"] is None
    place = done.json[0]["place"]
    assert (place["state"], place["list"], place["ahead"]) == ("WAITING", "manual", 1)


def test_show_knows_nothing_of_a_number_nobody_asked_for(run: Run) -> None:
    assert run("show", "usps", NUMBER).code == 1


def test_show_prints_what_is_stored_while_redis_is_away(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked(collections)
    monkeypatch.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")
    done = run("show", "usps", NUMBER)
    assert done.code == 3
    assert "InTransit" in done.out
    assert "Redis" in done.err


def test_show_of_a_number_with_its_last_error(run: Run, collections: Any) -> None:
    tracked(collections, error={"code": "courier_down", "message": "503", "at": CHECKED})
    assert "courier_down: 503" in run("show", "usps", NUMBER).out


def test_show_of_an_operation(run: Run, store: redis.Redis) -> None:
    status = {"status": "SUCCESS", "output": {"tag": "Delivered", "checkpoints": 1}}
    store.set("tracking:status:order-1", json.dumps(status))
    assert run("show", "--id", "order-1").lines[0] == "order-1: SUCCESS  Delivered, 1 checkpoint"
    assert run("show", "--id", "order-2").code == 1


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["show", "usps"], ["show", "usps", NUMBER, "--id", "x"], ["show", "nobody", NUMBER]],
)
def test_show_of_nothing_in_particular_is_refused(offline: Run, arguments: list[str]) -> None:
    assert offline(*arguments).code == 2


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


@pytest.mark.parametrize(("together", "seconds"), [(1, 4), (4, 1)])
def test_show_tells_of_one_request_where_it_waits_and_what_keeps_it(
    run: Run, store: redis.Redis, monkeypatch: pytest.MonkeyPatch, together: int, seconds: int
) -> None:
    monkeypatch.setenv("TRACKER_LIMITS__SLUGS__USPS__TOGETHER", str(together))
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

    waits_for = f"  request     waits in the manual list, 8 ahead, in about {seconds} s"
    assert waits_for in done.lines
    assert "  bound by    2 calls a second are allowed" in done.lines
    place = told["place"]
    assert (place["ahead"], place["bound_by"]) == (8, "rate")
    assert place["eta_seconds"] == place["until_seconds"] == pytest.approx(seconds * 1.02)
    assert look["couriers"][0]["last_starts_seconds"] == pytest.approx(seconds * 1.02)


RECORDED = f"  recorded    2026-03-01 12:00:00 UTC; `{PROGRAM} resend --id order-1` asks again"


def refused(at: dt.datetime, reason: str) -> dict[str, Any]:
    named = {"slug": "usps", "number": NUMBER, "operations": ["order-1"]}
    return {"_id": reason, **named, "reason": reason, "detail": f"why {reason}", "at": at}


def test_show_tells_why_and_how_to_ask_again(run: Run, collections: Any) -> None:
    at = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    before = at - dt.timedelta(days=1)
    collections.dead.insert_many([refused(at, "too_late"), refused(before, "wait_list_full")])

    done = run("show", "--id", "order-1")

    assert done.code == 0
    told = ["order-1: dead  too_late: why too_late", f"  tracking    usps:{NUMBER}", RECORDED]
    assert done.lines == told
    (members,) = run("show", "--id", "order-1", "--json").json
    assert (members["operation"], members["dead"]["reason"]) == (None, "too_late")


def test_there_is_nothing_to_cancel(run: Run, collections: Any) -> None:
    collections.dead.insert_one(refused(dt.datetime.now(dt.UTC), "too_late"))

    done = run("cancel", "--id", "order-1")

    assert done.code == 1
    assert "order-1 waits no more: why too_late" in done.err


def test_who_waits_for_it_is_told_and_waits_no_longer(run: Run, collections: Any) -> None:
    """A record of an earlier put of this id is none of this one."""
    now = dt.datetime.now(dt.UTC)
    collections.dead.insert_one(refused(now - dt.timedelta(minutes=1), "wait_list_full"))
    before = run("put", "usps", NUMBER, "--id", "order-1", "--wait", "0")
    collections.dead.insert_one(refused(now, "too_late"))

    done = run("put", "usps", NUMBER, "--id", "order-1", "--wait", "60")

    assert (before.code, before.lines[0].split()[0]) == (4, "NOT")
    assert done.code == 1
    assert done.lines == [f"DEAD      usps {NUMBER}  too_late: why too_late"]
