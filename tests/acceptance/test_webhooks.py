"""Webhooks from a service that is made over HTTP to the receiver's log, whatever fails or dies."""

from __future__ import annotations

import base64
import hmac
import time
from http import HTTPStatus
from typing import Any

import pytest
from hooks import WHO, Hooks, numbers_of, verified
from plant import Plant
from portion import TIMES
from running_worker import until
from standardwebhooks import WebhookVerificationError

from devstack import judge
from service.worker.deliveries.signing import new_secret
from tracking.request import MAIN

KILLS = 3
CONCURRENT = 6
TAKES_OVER = 30.0


def test_a_service_made_over_http_gets_a_change_with_a_valid_signature(plant: Plant) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    api, receiver = hooks.api(), hooks.receiver("erp")

    wishes: dict[str, Any] = {"name": "erp", "destination": receiver.url}
    status, made = api.post("/v1/services", wishes | {"headers": {"X-Shop": "7"}})
    assert status == HTTPStatus.CREATED, made
    hooks.wait_until_heard(made["hears_from"])
    plant.producer.put(hooks.slug, "AB000001")
    until(receiver.received, 10.0, "a webhook arrives")

    (received,) = receiver.received()
    told = verified(made["secret"], received)
    with pytest.raises(WebhookVerificationError):
        verified(new_secret(), received)
    assert (told["type"], told["data"]["number"]) == ("parcel.changed", "AB000001")
    assert (told["data"]["before"], received.headers["x-shop"]) == (None, "7")
    assert received.headers["content-type"] == "application/json"
    id_ = received.call.number
    until(lambda: api.get(f"/v1/deliveries/{id_}")[1]["state"] == "delivered", 5.0, "it is known")
    _, shown = api.get(f"/v1/deliveries/{id_}")
    assert [each["status"] for each in shown["attempts"]] == [200]
    assert shown["body"].encode() == received.body


@pytest.mark.prove
def test_what_fails_comes_again_with_the_same_id_and_a_new_signature(plant: Plant) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    receiver = hooks.receiver("erp")
    receiver.behave(fault="status", status=500, first=1)
    secret = hooks.make("erp").secret
    assert secret
    plant.producer.put(hooks.slug, "AB000001")
    hooks.all_delivered("erp", 1, 20.0)

    first, second = receiver.received()
    assert first.call.number == second.call.number
    assert first.body == second.body
    assert verified(secret, first) == verified(secret, second)
    assert first.headers["webhook-timestamp"] < second.headers["webhook-timestamp"]
    assert 4.0 < (second.call.arrived_ns - first.call.arrived_ns) / 1e9 < 9.0
    rows = plant.collection("attempts").find().sort("_id")
    assert [(each["status"], each["failure"]) for each in rows] == [
        (500, "server_error"),
        (200, None),
    ]
    hooks.judge_attempts("erp")


FAILING: dict[str, dict[str, Any]] = {
    "connection": {"fault": "reset"},
    "timeout": {"fault": "hang"},
    "redirect": {"fault": "redirect"},
    "refused": {"fault": "status", "status": 404},
}
ENDLESS = {"bomb": "gzip_bomb", "huge": "huge"}


@pytest.mark.prove
def test_why_an_attempt_failed_is_a_word_without_address_and_little_of_an_endless_answer_is_kept(
    plant: Plant,
) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    for failure, behaviour in FAILING.items():
        hooks.receiver(failure).behave(first=1, **behaviour)
    for name, fault in ENDLESS.items():
        hooks.receiver(name).behave(fault=fault)
    made = {name: hooks.make(name).service.id for name in (*FAILING, *ENDLESS)}
    plant.producer.put(hooks.slug, "AB000001")
    for name in made:
        hooks.all_delivered(name, 1, 30.0)

    rows = list(plant.collection("attempts").find({"failure": {"$ne": None}}))
    assert {each["service"]: each["failure"] for each in rows} == {
        made[failure]: failure for failure in FAILING
    }
    assert all("127.0.0.1" not in str({**each, "headers": None}) for each in rows)
    endless = [made[name] for name in ENDLESS]
    kept = list(plant.collection("attempts").find({"service": {"$in": endless}}))
    assert [(each["status"], len(each["body"])) for each in kept] == [(200, 16 * 1024)] * 2


def test_410_switches_the_service_off_and_what_happens_then_is_held_until_it_is_on(
    plant: Plant,
) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    receiver = hooks.receiver("erp")
    receiver.behave(fault="status", status=410)
    hooks.make("erp")
    plant.producer.put(hooks.slug, "AB000001")
    until(lambda: hooks.states("erp") == {"held": 1}, 15.0, "it is held")
    service = plant.collection("services").find_one({"name": "erp"})
    assert service is not None
    assert (service["state"], service["disabled_why"]) == ("disabled", "gone")
    receiver.behave()
    plant.producer.put(hooks.slug, "AB000002")
    until(lambda: sum(hooks.states("erp").values()) == 2, 10.0, "the next one joins")
    time.sleep(7.0)
    assert len(receiver.received()) == 1

    with hooks.services() as services:
        services.change(WHO, MAIN, "erp", {"state": "active"})
    hooks.all_delivered("erp", 2, 20.0)

    assert sorted(hooks.arrived("erp")) == ["AB000001", "AB000001", "AB000002"]
    hooks.judge_attempts("erp")


def test_killed_workers_lose_no_webhook_and_send_none_after_a_stored_success(
    plant: Plant,
) -> None:
    hooks, numbers = Hooks(plant), numbers_of(60)
    hooks.receiver("erp").behave(latency=0.4)
    workers = [plant.hire(processes=2).ready() for _ in range(2)]
    hooks.make("erp", concurrent=CONCURRENT)
    plant.producer.put_all(hooks.slug, numbers)
    for kill in range(1, KILLS + 1):
        until(lambda seen=10 * kill: len(hooks.arrived("erp")) >= seen, TAKES_OVER, "some arrive")
        workers[kill % 2].kill_child()
    hooks.all_delivered("erp", len(numbers), 60.0)

    assert set(hooks.arrived("erp")) == set(numbers)
    hooks.judge_attempts("erp", doubles=KILLS * CONCURRENT)
    calls = [each.call for each in hooks.receiver("erp").received()]
    assert judge.most_in_flight(calls) <= CONCURRENT
    assert plant.tracking.count_documents({"untold": {"$exists": True}}) == 0


@pytest.mark.prove
def test_limits_of_a_service_hold_at_its_receiver(plant: Plant) -> None:
    hooks, numbers = Hooks(plant), numbers_of(24)
    hooks.receiver("erp").behave(latency=0.7)
    for _ in range(2):
        plant.hire(processes=2).ready()
    hooks.make("erp", concurrent=2, per_second=5)
    plant.producer.put_all(hooks.slug, numbers)
    hooks.all_delivered("erp", len(numbers), 40.0)

    calls = [each.call for each in hooks.receiver("erp").received()]
    assert len(calls) == len(numbers)
    assert judge.most_in_flight(calls) == 2
    assert judge.most_starts_in_any_second(calls) <= 5


@pytest.mark.prove
def test_a_redis_that_lost_all_is_filled_again_from_mongodb(plant: Plant) -> None:
    redis, hooks, numbers = plant.own_redis(), Hooks(plant), numbers_of(20)
    receiver = hooks.receiver("erp")
    plant.hire().ready()
    hooks.make("erp", concurrent=1)
    receiver.behave(latency=0.3)
    plant.producer.put_all(hooks.slug, numbers)
    until(lambda: sum(hooks.states("erp").values()) == len(numbers), 20.0, "all are noted")
    assert redis.ours
    plant.redis.flushall()
    hooks.all_delivered("erp", len(numbers), 60.0)

    assert set(hooks.arrived("erp")) == set(numbers)


@pytest.mark.prove
def test_while_a_secret_is_changed_both_verify_and_then_the_new_one(plant: Plant) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    api, receiver = hooks.api(), hooks.receiver("erp")
    old = hooks.make("erp").secret
    _, changed = api.post("/v1/services/erp/secret/rotate")
    plant.producer.put(hooks.slug, "AB000001")
    until(receiver.received, 10.0, "a webhook arrives")

    (received,) = receiver.received()
    assert old
    assert changed["secret"] != old
    assert verified(old, received) == verified(changed["secret"], received)


@pytest.mark.prove
def test_a_service_in_aftership_s_format_gets_their_body_with_their_signature(plant: Plant) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    receiver = hooks.receiver("erp")
    secret = hooks.make("erp", format="aftership").secret
    plant.producer.put(hooks.slug, "AB000001")
    until(receiver.received, 10.0, "a webhook arrives")

    (received,) = receiver.received()
    assert secret
    signature = base64.b64encode(hmac.digest(secret.encode(), received.body, "sha256")).decode()
    assert received.headers["aftership-hmac-sha256"] == signature
    assert received.json["event"] == "tracking_update"
    assert received.json["msg"]["tracking_number"] == "AB000001"


@pytest.mark.prove
@pytest.mark.measures
def test_a_change_is_on_its_way_at_once_and_the_end_of_a_request_within_a_second(
    plant: Plant,
) -> None:
    hooks, numbers = Hooks(plant), numbers_of(30)
    plant.hire().ready()
    hooks.make("erp")
    hooks.make("ends", events=["service.disabled"])
    for number in numbers:
        plant.producer.put(hooks.slug, number, id=f"of-{number}", webhook="ends")
        time.sleep(0.2)
    hooks.all_delivered("erp", len(numbers), 20.0)
    hooks.all_delivered("ends", len(numbers), 20.0)

    answered = {call.number: call.ended_ns for call in plant.calls(hooks.slug)}
    for name, most in (("erp", 0.05), ("ends", 1.0)):
        ways = sorted(
            (each.call.arrived_ns - (answered[each.json["data"]["number"]] or 0)) / 1e9
            for each in hooks.receiver(name).received()
        )
        median = ways[len(ways) // 2]
        what = {"erp": "of a change", "ends": "of an end"}[name]
        plant.measured(f"from an answer to the receiver's first byte {what}", [f"{median:.3f} s"])
        assert median < most or not TIMES


@pytest.mark.prove
def test_nothing_is_sent_into_the_machine_unless_an_operator_allows_it(plant: Plant) -> None:
    hooks = Hooks(plant)
    receiver = hooks.receiver("erp")
    hooks.make("erp")
    plant.settings["webhooks.allowed.main.networks"] = []
    plant.hire().ready()
    status, refused = hooks.api().post("/v1/services", {"name": "crm", "destination": receiver.url})
    assert (status, "IP address" in refused["detail"]) == (422, True)

    plant.producer.put(hooks.slug, "AB000001")
    attempts = plant.collection("attempts")
    until(lambda: attempts.count_documents({}) >= 2, 20.0, "attempts are made")
    assert {each["failure"] for each in attempts.find()} == {"forbidden_address"}
    assert receiver.received() == []


@pytest.mark.prove
def test_couriers_are_asked_beside_a_receiver_that_hangs(plant: Plant) -> None:
    hooks, acme = Hooks(plant), plant.courier("acme")
    hooks.receiver("erp").behave(fault="hang")
    plant.hire().ready()
    hooks.make("erp", concurrent=20)
    plant.producer.put_all(hooks.slug, numbers_of(60))
    until(lambda: len(hooks.receiver("erp").received()) >= 20, 15.0, "the receiver hangs")
    for number in range(6):
        plant.producer.put(acme, f"CD{number:06}", id=f"of-{number}")
    plant.endings.come(15.0)

    plant.held_to_limits()
    assert {plant.endings.state(f"of-{number}") for number in range(6)} == {"SUCCESS"}
