"""A body that is no request is recorded, buried, and hurts nobody (docs/interface.md §1)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from plant import Plant
from running_worker import until


def job(**members: Any) -> bytes:
    """A request of the courier {slug}, with these members of its payload."""
    payload = {"slug": "{slug}", "number": "AB000001", **members}
    return json.dumps({"type": "requests_flow", "payload": payload}).encode()


GREATEST, RECORDED = 65_535, 4_096
"""Bytes of the greatest job, and of what is recorded of one."""

HOSTILE: tuple[tuple[str, bytes], ...] = (
    ("bad_utf8", b'{"type":"requests_flow\xff"}'),
    ("bad_utf8", b"\x80\x04\x95pickle"),
    ("bad_json", b""),
    ("bad_json", b"\x00"),
    ("bad_json", b'{"type":"requests_flow","payload":{"slug":"{slug}"'),
    ("bad_json", b"[" * 60_000),
    ("bad_json", b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    ("bad_json", b'{"type":"requests_flow","payload":{"max_age":NaN}}'),
    ("bad_json", b'{"type":"requests_flow","payload":{"max_age":-Infinity}}'),
    ("bad_json", b'{"type":"requests_flow","payload":{"max_age":' + b"9" * 5_000 + b"}}"),
    ("bad_json", b'{"type":"requests_flow","payload":{"slug":"usps","slug":"{slug}"}}'),
    ("bad_json", b"x" * GREATEST),
    ("bad_shape", b"null"),
    ("bad_shape", b"[]"),
    ("bad_shape", b'"requests_flow"'),
    ("bad_shape", b'{"type":7,"payload":{}}'),
    ("bad_shape", b'{"type":"requests_flow"}'),
    ("bad_shape", b'{"type":"requests_flow","payload":["{slug}","AB000001"]}'),
    ("wrong_tube", b'{"type":"wait_list","payload":{"slug":"{slug}"}}'),
    ("wrong_tube", b'["emails",{"type":"requests_flow","payload":{"slug":"{slug}"}}]'),
    ("bad_slug", job(slug=None)),
    ("bad_slug", job(slug="../../etc/passwd")),
    ("bad_slug", job(slug="__proto__")),
    ("bad_slug", job(slug="usps\n")),
    ("bad_slug", job(slug="u" * 65)),
    ("unknown_slug", job(slug="no-such-courier")),
    ("bad_number", job(number={"$ne": None})),
    ("bad_number", job(number=9405903699300184125060)),
    ("bad_number", job(number="AB1")),
    ("bad_number", job(number="A" * 101)),
    ("bad_number", job(number="AB000001\nDEL")),
    ("bad_number", job(number="AB\u0000CD12")),
    ("bad_number", job(number="\uff21\uff22\uff11\uff12\uff13\uff14")),
    ("bad_number", job(number="../../admin")),
    ("bad_id", job(id="")),
    ("bad_id", job(id="a" * 129)),
    ("bad_id", job(id="order 1")),
    ("bad_id", job(id=17)),
    ("bad_origin", job(origin="manual")),
    ("bad_webhook", job(webhook="shop")),
    ("bad_webhook", job(id="order-1", webhook="/../")),
    ("bad_max_age", job(max_age=-1)),
    ("bad_max_age", job(max_age="30")),
    ("bad_max_age", job(max_age=True)),
    ("bad_expires_in", job(expires_in=-1)),
    ("bad_field", job(tracking_postal_code=["8000"])),
    ("bad_field", job(tracking_key="\ud800")),
)


def test_hostile_jobs_are_recorded_with_their_reason_and_buried_and_the_next_one_is_answered(
    plant: Plant,
) -> None:
    slug = plant.courier(per_second=100)
    worker = plant.hire().ready()
    reasons = {}
    for number, (reason, body) in enumerate(HOSTILE):
        told = body.replace(b"{slug}", slug.encode())
        reasons[plant.producer.put_body(told)] = reason
        plant.producer.put(slug, f"GOOD{number:04d}")
    plant.endings.come(30.0)

    recorded = {each["job"]: each["reason"] for each in plant.dead.find({})}
    assert recorded == reasons
    assert {len(each["body"]) for each in plant.dead.find({"body": {"$regex": "^x"}})} == {RECORDED}
    named = plant.dead.find_one({"reason": "bad_max_age"}) or {}
    assert (named["slug"], named["number"]) == (slug, "AB000001")
    assert sorted(plant.producer.take_buried()) == sorted(reasons)
    assert len(plant.calls(slug)) == len(HOSTILE)
    assert not worker.events("process died")


def test_any_ttr_and_any_priority_work(plant: Plant) -> None:
    slugs = {ttr: plant.courier(latency=1.3) for ttr in (1, 2**32 - 1)}
    worker = plant.hire().ready()
    for ttr, slug in slugs.items():
        for number, priority in enumerate((0, 2**32 - 1)):
            plant.producer.put_placed(slug, f"AB00000{number}", ttr=ttr, priority=priority)
    plant.endings.come(15.0)
    for ttr, slug in slugs.items():
        plant.producer.put_placed(slug, "AB000009", ttr=ttr)
    until(lambda: all(len(plant.calls(slug)) == 3 for slug in slugs.values()), 5.0, "more calls")
    time.sleep(0.5)  # from then on the jobs are kept by touches
    assert worker.stop() == 0

    plant.endings.come(0.0)
    assert all(len(plant.calls(slug)) == 3 for slug in slugs.values())


@pytest.mark.guest
def test_what_waits_for_a_courier_that_nobody_knows_goes_on_waiting(plant: Plant) -> None:
    worker = plant.hire().ready()
    plant.redis.rpush("wait_list:nobodys", "AB123456")
    body = b'{"type":"wait_list","payload":{"slug":"nobodys"}}'
    plant.producer.put_body(body, tube="wait_list")

    told = until(lambda: worker.events("line is unknown"), 10.0, "the log says so")
    until(lambda: not sum(plant.producer.jobs("wait_list").values()), 5.0, "the job is gone")

    assert {each["line"] for each in told} == {"nobodys"}
    assert plant.redis.lrange("wait_list:nobodys", 0, -1) == ["AB123456"]
    assert plant.dead.find_one({"slug": "nobodys"}) is None


def test_a_courier_without_credentials_keeps_its_requests_and_info_says_why(plant: Plant) -> None:
    site = plant.own_site()
    plant.settings["couriers.usps.base_url"] = f"{site.url}/usps"
    slug = plant.courier()
    worker = plant.hire().ready()
    plant.producer.put("usps", "9405903699300184125060", id="order-1")
    plant.producer.put(slug, "AB123456")
    until(lambda: worker.events("credentials are missing", slug="usps"), 10.0, "the log says so")
    until(lambda: plant.document(slug, "AB123456"), 10.0, "others are answered")

    told = json.loads(plant.command("info", "--json").stdout)
    usps = next(each for each in told["couriers"] if each["slug"] == "usps")
    assert (usps["waiting_later"], usps["bound_by"]) == (1, "paused")
    assert usps["paused_why"] == "no_credentials"
    assert not site.entries("usps")
    assert not plant.dead.count_documents({})
    assert plant.producer.jobs()["buried"] == 0


@pytest.mark.guest
def test_who_waits_for_credentials_for_a_day_is_dead(plant: Plant) -> None:
    plant.hire().ready()
    plant.producer.put_body(job(slug="hkpost", number="RR123456785HK", id="of-yesterday"))
    waiting = "wait_requests:hong-kong-post"
    record = until(lambda: plant.redis.hget(waiting, "RR123456785HK"), 10.0, "it waits")
    until(lambda: plant.redis.exists("calls_paused:hong-kong-post"), 5.0, "the courier is paused")
    assert not list(plant.redis.scan_iter("*hkpost*")), "an alias is nobody's key"
    # A day goes by in which nobody gives credentials.
    yesterday = round((time.time() - 86_500) * 1000)
    record = json.loads(record) | {"since": yesterday}
    plant.redis.hset(waiting, "RR123456785HK", json.dumps(record))
    operation = json.loads(plant.redis.get("tracking:status:of-yesterday")) | {"at": yesterday}
    plant.redis.set("tracking:status:of-yesterday", json.dumps(operation), keepttl=True)
    refused = json.loads(plant.redis.get("calls_brake:hong-kong-post")) | {"refused": yesterday}
    plant.redis.set("calls_brake:hong-kong-post", json.dumps(refused), keepttl=True)
    plant.redis.zadd("wait_later:hong-kong-post", {"RR123456785HK": 1}, xx=True)
    dead = until(lambda: plant.dead.find_one({"slug": "hong-kong-post"}), 15.0, "it is dead")

    assert dead["reason"] == "no_credentials"
    assert dead["operations"] == ["of-yesterday"]
    until(lambda: plant.endings.state("of-yesterday") == "ERROR", 5.0, "it ended")


@pytest.mark.prove
def test_a_request_over_which_worker_after_worker_vanishes_is_dead(plant: Plant) -> None:
    """Else one job that crashes its worker would take down one after the other for ever.

    And a re-check would bring it back some hours later.
    """
    plant.settings["retry.deaths"] = 2
    slug = plant.courier()
    worker = plant.hire(FAILPOINT="limits.admit:granted").ready()
    plant.producer.put(slug, "AB123457", id="order-1")
    plant.endings.come(40.0)

    record = plant.dead.find_one({})
    assert record
    assert (record["reason"], record["operations"]) == ("workers_vanished", ["order-1"])
    assert plant.endings.state("order-1") == "ERROR"
    assert len(worker.events("process died", code=-9)) == 3
    assert not plant.calls(slug)
    died = plant.document(slug, "AB123457") or {}
    assert (died["error"]["code"], died["active"]) == ("workers_vanished", True)
    assert died["next_check_at"] is None

    worker.stop()
    plant.hire().ready()
    plant.producer.put(slug, "AB123457", id="order-2")
    plant.endings.come(15.0)
    answered = plant.document(slug, "AB123457") or {}
    assert answered["error"] is None
    assert answered["next_check_at"] > answered["last_checked_at"]
