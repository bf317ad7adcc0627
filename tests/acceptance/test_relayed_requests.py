"""What doors put for relays is stored by workers once each, whatever dies meanwhile.

The relay is paused, so that what was stored waits and can be counted.
"""

from __future__ import annotations

import datetime as dt

import pytest
from hooks import WHO, Hooks
from plant import Plant
from running_worker import until

from service.operator.relays import label_of
from service.worker.deliveries.foreign_request import (
    WEBHOOKS_TUBE,
    ForeignRequest,
    encode_foreign,
    new_request_id,
)
from service.worker.deliveries.service import Service
from service.worker.wiring.failpoints import RelayPoint
from tracking.request import MAIN

DAILY = RelayPoint.EVENT_INSERTED
SOON = 30.0
WAITING = dict.fromkeys(("open", "held"), "waiting")


def paused_relay(hooks: Hooks, **ingest: object) -> Service:
    """Make a relay of which nothing is sent yet."""
    wishes = {"type": "relay", "destination": hooks.receiver("erp").url, "ingest": ingest}
    with hooks.services() as services:
        services.make(WHO, MAIN, "erp", wishes)
        return services.change(WHO, MAIN, "erp", {"state": "paused"}).service


def put(plant: Plant, service: Service, count: int, times: int = 1) -> list[bytes]:
    """Put so many requests as a door does, each so often; gives their bodies."""
    bodies = [f"body {number}".encode() for number in range(count)]
    now, label = dt.datetime.now(dt.UTC), label_of(service)
    headers = (("X-Event", "e"),)
    with plant.producer.client(WEBHOOKS_TUBE) as client:
        for body in bodies:
            url = f"https://in.example/{label}/"
            named = (new_request_id(), label, now, "POST", "/", url, headers, body)
            job = encode_foreign(ForeignRequest(*named))
            for _ in range(times):
                client.put(job)
    return bodies


def tube_is_empty(plant: Plant) -> bool:
    jobs = plant.producer.jobs(WEBHOOKS_TUBE)
    return not any(jobs[state] for state in ("ready", "reserved", "delayed"))


def judge_stored(plant: Plant, bodies: list[bytes], **states: int) -> None:
    """Assert that there is one event and one delivery of each request, and that no job is left."""
    until(lambda: tube_is_empty(plant), SOON, "all jobs are gone")
    events = list(plant.collection("events").find())
    assert sorted(each["bodies"]["relay"] for each in events) == sorted(bodies)
    deliveries = list(plant.collection("deliveries").find())
    assert {each["event"] for each in deliveries} == {each["_id"] for each in events}
    # A worker that has not heard of the pause yet leaves some open: the keeper holds them.
    found = [WAITING.get(each["state"], each["state"]) for each in deliveries]
    assert {state: found.count(state) for state in set(found)} == states


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=() if each is DAILY else pytest.mark.prove, id=each)
        for each in RelayPoint
        if each is not RelayPoint.PUSH_PUT  # test_pushed_parcels.py comes there
    ],
)
def test_a_request_that_a_killed_worker_had_is_stored_once_by_the_next(
    plant: Plant, point: RelayPoint
) -> None:
    hooks = Hooks(plant)
    doomed = plant.hire(FAILPOINT=point).ready()
    service = paused_relay(hooks)
    bodies = put(plant, service, 8, times=2)
    until(lambda: doomed.events("process died", code=-9), SOON, "the fail point was reached")
    doomed.stop()

    plant.hire().ready()

    judge_stored(plant, bodies, waiting=8)


@pytest.mark.prove
def test_while_mongodb_is_away_jobs_stay_and_none_is_lost(plant: Plant) -> None:
    hooks = Hooks(plant)
    mongodb = plant.own_mongodb()
    worker = plant.hire(processes=2).ready()
    service = paused_relay(hooks, dedupe_header="X-Event")
    mongodb.kill()
    bodies = put(plant, service, 200)
    until(lambda: worker.misses("mongo"), SOON, "it is missed")
    until(lambda: plant.producer.jobs(WEBHOOKS_TUBE)["reserved"], SOON, "workers hold some")
    assert sum(plant.producer.jobs(WEBHOOKS_TUBE).values()) == 200

    mongodb.start()

    judge_stored(plant, bodies, waiting=1, completed=199)


@pytest.mark.prove
def test_workers_that_have_the_same_jobs_store_each_request_once(plant: Plant) -> None:
    hooks = Hooks(plant)
    service = paused_relay(hooks)
    bodies = put(plant, service, 300, times=2)

    plant.hire(processes=2).ready()

    judge_stored(plant, bodies, waiting=300)


@pytest.mark.prove
def test_a_job_that_no_door_wrote_is_recorded_and_buried_and_others_go_on(plant: Plant) -> None:
    hooks = Hooks(plant)
    service = paused_relay(hooks)
    plant.hire().ready()
    job = plant.producer.put_body(b"{}\n", WEBHOOKS_TUBE)
    bodies = put(plant, service, 1)

    judge_stored(plant, bodies, waiting=1)

    until(lambda: plant.producer.jobs(WEBHOOKS_TUBE)["buried"], SOON, "it is buried")
    [record] = plant.collection("dead").find()
    assert (record["reason"], record["job"]) == ("bad_json", job)


@pytest.mark.prove
def test_what_came_for_a_relay_is_delivered_once_as_soon_as_it_goes_on(plant: Plant) -> None:
    hooks = Hooks(plant)
    plant.hire(processes=2).ready()
    service = paused_relay(hooks)
    bodies = put(plant, service, 20, times=2)
    judge_stored(plant, bodies, waiting=20)

    with hooks.services() as services:
        services.change(WHO, MAIN, "erp", {"state": "active"})

    bodies += put(plant, service, 20)
    hooks.all_delivered("erp", 40, SOON)
    received = hooks.receiver("erp").received()
    assert sorted(each.body for each in received) == sorted(bodies)
    assert {each.headers["x-event"] for each in received} == {"e"}
