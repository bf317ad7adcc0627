"""Forgetting parcels: all that is stored of them goes, and it is told what cannot be reached."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run

from devstack.servers import Server

NUMBER, OTHER = "9405903699300184125060", "9405903699300184125061"
AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
BODY = json.dumps({"type": "requests_flow", "payload": {"slug": "usps", "number": NUMBER}}).encode()
Untouched = Callable[[], bool]
COLLECTIONS = (
    "tracking",
    "tracking_past",
    "unreadable",
    "dead",
    "operations",
    "shipments",
    "links",
    "refused",
)


def store_all(collections: Any, store: redis.Redis, number: str, **dead: Any) -> None:
    """Something of each kind about one parcel, in the form in which workers store it."""
    name = f"usps:{number}"
    parcel = {"slug": "usps", "tracking_number": number, "created_at": AT, "signed_by": "J. Doe"}
    collections.tracking.insert_one(parcel | {"_id": name})
    collections.tracking_past.insert_one(parcel | {"_id": f"{name}:2025-01-01T08:00:00"})
    kept = {"_id": name, "slug": "usps", "number": number, "observed_us": 1, "body": "J. Doe"}
    collections.unreadable.insert_one(kept)
    letter = {"slug": "usps", "number": number, "reason": "courier_down", "body": BODY, "at": AT}
    collections.dead.insert_one(letter | {"_id": f"{name}:1", "server": None, "job": None} | dead)
    operation = {"slug": "usps", "number": number, "admitted_at": AT}
    collections.operations.insert_one(operation | {"_id": f"{name}@1"})
    shipment = {"parcel": name, "words": {"customers": [{"name": "J. Doe"}]}, "created_at": AT}
    collections.shipments.insert_one(shipment | {"_id": name})
    collections.links.insert_one({"_id": name, "slug": "usps", "number": number})
    collections.refused.insert_one({"_id": name, "document": {"slug": "usps", "number": number}})
    record = {"since": 1, "newest": [f"waits-{number}"], "ids": 1}
    store.hset("wait_requests:usps", number, json.dumps(record))
    waiting = {"status": "WAITING", "tracking": name, "at": 1}
    store.set(f"tracking:status:waits-{number}", json.dumps(waiting))
    store.rpush("wait_list:usps", number)
    store.set(f"tracking:answer:usps:{number}", "{}", px=30_000)
    ended = {"status": "SUCCESS", "startedAt": "2026-03-01T12:00:00.000Z", "output": {"tag": "?"}}
    store.set(f"tracking:status:done-{number}", json.dumps(ended | {"tracking": name}), px=60_000)


@pytest.fixture
def untouched(collections: Any, store: redis.Redis) -> Untouched:
    """Whether all that is stored of a parcel is still there."""
    store_all(collections, store, NUMBER)

    def look() -> bool:
        whole = dict.fromkeys(COLLECTIONS, 1)
        return left(collections) == whole and not store.keys("tracking:forgotten:*")

    return look


def left(collections: Any) -> dict[str, int]:
    wanted = {"_id": {"$regex": f"^usps:{NUMBER}"}}
    return {name: collections[name].count_documents(wanted) for name in COLLECTIONS}


def test_all_that_is_stored_of_a_parcel_goes_and_nothing_of_another(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    for number in (NUMBER, OTHER):
        store_all(collections, store, number)

    done = run("forget", "usps", NUMBER, "--yes", "--json")

    assert done.code == 0
    kinds = dict.fromkeys(("cancelled", "answers", *COLLECTIONS), 1) | {"outputs": 2}
    (told,) = done.json
    assert (told["slug"], told["number"], told["known"]) == ("usps", NUMBER, True)
    assert {kind: told[kind] for kind in kinds} == kinds
    assert (told["calls"], told["failed"]) == (0, [])
    assert left(collections) == dict.fromkeys(COLLECTIONS, 0)
    assert [collections[name].count_documents({}) for name in COLLECTIONS] == [1] * len(COLLECTIONS)
    assert store.lrange("wait_list:usps", 0, -1) == [OTHER]
    texts = "".join(store.mget(store.keys("tracking:status:*")))
    assert texts.count(f"usps:{OTHER}") == 2
    assert f"usps:{NUMBER}" not in texts
    assert store.keys("tracking:answer:*") == [f"tracking:answer:usps:{OTHER}"]


def test_it_is_told_what_was_there_and_what_is_not_reached(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    store_all(collections, store, NUMBER)

    done = run("forget", "usps", NUMBER, "--yes")

    counted = (
        "tracking 1, tracking_past 1, unreadable 1, operations 1, shipments 1, links 1, refused 1,"
        " dead 1, outputs 2"
    )
    assert done.lines[0] == f"forgot usps {NUMBER}: cancelled 1, answers 1, {counted}"
    for what in ("in the tubes", "append-only file", "backups", "oplog"):
        assert what in done.out


def test_of_an_unknown_parcel_it_is_said_and_repeating_does_no_harm(run: Run) -> None:
    for _ in range(2):
        done = run("forget", "usps", NUMBER, "--yes")

        assert done.code == 1
        assert done.lines[0] == f"nothing is known about usps {NUMBER}"


def test_the_buried_job_of_its_dead_request_goes_with_the_record(
    run: Run,
    collections: Any,
    store: redis.Redis,
    beanstalkd: Server,
    tube: greenstalk.Client[bytes],
) -> None:
    job = tube.put(BODY)
    tube.bury(tube.reserve(timeout=1))
    store_all(collections, store, NUMBER, server=beanstalkd.url, job=job)

    assert run("forget", "usps", NUMBER, "--yes").code == 0

    assert collections.dead.count_documents({}) == 0
    assert tube.stats_tube("requests_flow")["current-jobs-buried"] == 0


def test_a_record_stays_while_its_buried_job_cannot_be_deleted(
    run: Run, collections: Any, store: redis.Redis, beanstalkd: Server
) -> None:
    store_all(collections, store, NUMBER, server=beanstalkd.url, job=1)
    beanstalkd.kill()

    done = run("forget", "usps", NUMBER, "--yes")

    assert done.code == 1
    assert f"usps:{NUMBER}:1 stays in dead" in done.err
    assert left(collections) == dict.fromkeys(COLLECTIONS, 0) | {"dead": 1}


def test_many_are_forgotten_by_one_file_each_once(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    for number in (NUMBER, OTHER):
        store_all(collections, store, number)
    lines = f"slug,number\nusps,{NUMBER}\nusps,9405-{OTHER[4:]}\nusps,{OTHER}\n"

    done = run("forget", "--csv", "-", "--yes", "--json", stdin=lines)

    assert done.code == 0
    assert [(told["number"], told["outputs"]) for told in done.json] == [(NUMBER, 2), (OTHER, 2)]
    assert collections.tracking.count_documents({}) == 0


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (("usps", NUMBER), "", "--yes"),
        (("--yes",), "", "SLUG NUMBER"),
        (("usps", "--yes"), "", "SLUG NUMBER"),
        (("usps", NUMBER, "??", "--yes"), "", "nothing was forgotten"),
        (("--csv", "-", "--yes"), "slug,number\n", "holds no request"),
        (("--csv", "-", "--yes"), f"slug,number\nusp,{NUMBER}\n", "-:2"),
    ],
)
def test_what_is_not_meant_or_not_understood_forgets_nothing(
    run: Run, untouched: Untouched, arguments: tuple[str, ...], stdin: str, complaint: str
) -> None:
    done = run("forget", *arguments, stdin=stdin)

    assert done.code == 2
    assert complaint in done.err
    assert untouched()


def test_while_mongodb_is_away_it_says_so_and_can_be_repeated(
    run: Run, monkeypatch: pytest.MonkeyPatch, collections: Any, store: redis.Redis, mongo_uri: str
) -> None:
    store_all(collections, store, NUMBER)
    monkeypatch.setenv("TRACKER_MONGODB__URI", "mongodb://127.0.0.1:1")
    assert run("forget", "usps", NUMBER, "--yes").code == 3

    monkeypatch.setenv("TRACKER_MONGODB__URI", mongo_uri)
    assert run("forget", "usps", NUMBER, "--yes").code == 0

    assert left(collections) == dict.fromkeys(COLLECTIONS, 0)


@pytest.mark.parametrize("text", ['{"status":null}', "{", "5", None])
def test_a_status_that_says_nothing_keeps_no_parcel_from_being_forgotten(
    run: Run, collections: Any, store: redis.Redis, text: str | None
) -> None:
    """A request that was just refused has a status of null; None: somebody wrote a set."""
    store_all(collections, store, NUMBER)
    key = "tracking:status:foreign"
    store.sadd(key, "x") if text is None else store.set(key, text)

    done = run("forget", "usps", NUMBER, "--yes", "--json")

    (told,) = done.json
    is_named = text != '{"status":null}'
    assert (done.code, bool(told["failed"])) == (int(is_named), is_named)
    assert all(key in why for why in told["failed"])
    assert told["outputs"] == 2
    assert json.loads(store.get(f"tracking:status:done-{NUMBER}"))["tracking"] is None
    assert not any(left(collections).values())
    store.delete(key)


def test_a_parcel_of_a_line_with_a_broken_key_is_forgotten_everywhere_else(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    store_all(collections, store, NUMBER)
    store.delete("wait_inflight:usps")
    store.set("wait_inflight:usps", "x")

    done = run("forget", "usps", NUMBER, "--yes", "--json")

    (told,) = done.json
    assert done.code == 1
    assert "WRONGTYPE" in told["failed"][0]
    assert not any(left(collections).values())
