"""Servers that go, come back, forget, or are not there at all: work waits and goes on by itself."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from plant import Plant
from portion import daily
from running_worker import until

from devstack.judge import SECOND_NS
from devstack.servers import Server
from limits.keys import TO_ARCHIVE

ABSENCE_SECONDS = 2.0
COMES_BACK = 25.0
"""Seconds: reconnecting takes up to 5, what vanished in mid-way a lease and a sweep."""

OWN: dict[str, Callable[[Plant], Server]] = {
    "beanstalkd": lambda plant: plant.beanstalkd,
    "redis": Plant.own_redis,
    "mongodb": Plant.own_mongodb,
}


@contextmanager
def traffic(plant: Plant, slug: str) -> Iterator[None]:
    """Put a request every 0.15 s meanwhile; a put that is not acknowledged is repeated."""
    over = threading.Event()

    def put() -> None:
        for number in itertools.count():
            plant.producer.put(slug, f"AB{number:06d}", id=f"{slug}-{number}")
            if over.wait(0.15):
                return

    producer = threading.Thread(target=put)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()


@pytest.mark.parametrize("kind", daily({"mongodb"}, *OWN))
def test_a_server_that_is_killed_and_comes_back_costs_time_only(plant: Plant, kind: str) -> None:
    server = OWN[kind](plant)
    slug = plant.courier(per_second=5, latency=0.3)
    worker = plant.hire(processes=2).ready()
    with traffic(plant, slug):
        until(lambda: len(plant.calls(slug)) >= 5, 10.0, "calls are made")
        server.kill()
        time.sleep(ABSENCE_SECONDS if kind != "beanstalkd" else 0.5)
        server.start()
        back = len(plant.calls(slug))
        until(lambda: len(plant.calls(slug)) >= back + 5, COMES_BACK, "calls are made again")
    plant.endings.come(COMES_BACK)

    plant.held_to_limits()
    assert not plant.dead.count_documents({})
    assert not worker.events("process died")
    assert all(plant.endings.state(str(put.id)) == "SUCCESS" for put in plant.producer.acknowledged)


@pytest.mark.prove
@pytest.mark.parametrize("kind", OWN)
def test_a_server_that_stands_still_for_a_while_costs_time_only(plant: Plant, kind: str) -> None:
    server = OWN[kind](plant)
    slug = plant.courier(per_second=5, latency=0.3)
    worker = plant.hire().ready()
    for number in range(15):
        plant.producer.put(slug, f"AB{number:06d}", id=f"{slug}-{number}")
    until(lambda: len(plant.calls(slug)) >= 5, 10.0, "calls are made")
    server.pause()
    time.sleep(ABSENCE_SECONDS)
    server.resume()
    plant.endings.come(COMES_BACK)

    plant.held_to_limits()
    assert not worker.events("process died")
    assert all(plant.endings.state(str(put.id)) == "SUCCESS" for put in plant.producer.acknowledged)


@pytest.mark.parametrize("kind", daily({"redis"}, "redis", "mongodb"))
def test_nothing_is_asked_while_the_answer_could_not_be_counted_or_kept(
    plant: Plant, kind: str
) -> None:
    server = OWN[kind](plant)
    slug = plant.courier()
    worker = plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    plant.endings.come(15.0)
    server.kill()
    plant.producer.put(slug, "AB000002")
    # The first try finds out that MongoDB is away: its answer is tried until the deadline.
    until(lambda: worker.events("server is away", server=kind), 10.0, "the worker notices")
    found_out = len(plant.calls(slug))
    assert found_out <= 2
    for number in range(3, 6):
        plant.producer.put(slug, f"AB00000{number}")
    time.sleep(ABSENCE_SECONDS)
    assert len(plant.calls(slug)) == found_out
    jobs = plant.producer.jobs()
    assert jobs["ready"] + jobs["reserved"] >= 3, "the jobs are kept"

    server.start()
    plant.endings.come(COMES_BACK)
    assert worker.events("server is back", server=kind)


def test_a_worker_waits_for_each_server_that_is_not_up_yet_and_says_so(plant: Plant) -> None:
    slug = plant.courier()
    plant.producer.put(slug, "AB000001")
    servers = {kind: OWN[kind](plant) for kind in OWN}
    for server in servers.values():
        server.stop()
    worker = plant.hire()
    for kind, server in servers.items():
        until(lambda kind=kind: worker.misses(kind), 20.0, "the log says who is away")
        server.start()
    plant.producer.put(slug, "AB000002")
    plant.endings.come(COMES_BACK)

    assert not worker.events("process died")


def test_jobs_are_taken_from_every_beanstalkd_and_go_on_while_another_is_absent(
    plant: Plant,
) -> None:
    server = plant.another_beanstalkd()
    other = plant.producer_at(server)
    slug = plant.courier(per_second=10)
    server.kill()
    plant.hire().ready()
    for number in range(8):
        plant.producer.put(slug, f"AB00000{number}")
    plant.endings.come(15.0)

    server.start()
    other.put(slug, "CD000000")
    until(lambda: plant.document(slug, "CD000000"), COMES_BACK, "the other one's job is done")
    for number in range(1, 6):
        plant.producer.put(slug, f"EF00000{number}")
        other.put(slug, f"CD00000{number}")
    until(lambda: plant.tracking.count_documents({}) == 19, 15.0, "all are answered")
    plant.endings.come(10.0)
    assert other.jobs() == {"ready": 0, "reserved": 0, "delayed": 0, "buried": 0}


def test_after_redis_forgot_everything_nobody_calls_for_one_call_timeout(plant: Plant) -> None:
    """Calls may run that nobody counts any more; when they are over, everything goes on."""
    plant.settings |= {"limits.call_timeout_seconds": 3.0, "limits.lease_seconds": 6.0}
    plant.own_redis()
    slug = plant.courier(latency=0.2)
    worker = plant.hire(processes=2).ready()
    with traffic(plant, slug):
        until(lambda: len(plant.calls(slug)) >= 5, 10.0, "calls are made")
        plant.redis.flushall()
        forgot = time.monotonic_ns()
        until(lambda: last_arrival(plant, slug) > forgot + 2 * SECOND_NS, 20.0, "it goes on")
    # A call that was granted before may still leave, on a busy machine a little later.
    late = [
        (call.arrived_ns - forgot) / SECOND_NS
        for call in plant.calls(slug)
        if call.arrived_ns > forgot
    ]
    plant.measured("calls after Redis' loss", [f"{each:.2f} s" for each in late[:5]])
    assert not [each for each in late if 1.0 < each < 2.9]
    assert worker.events("redis lost its state")

    for number in range(4):
        plant.producer.put(slug, f"CD00000{number}")
    until(lambda: all(plant.document(slug, f"CD00000{n}") for n in range(4)), 40.0, "new ones too")
    until(lambda: not plant.endings.held(), 20.0, "nothing is held")


def last_arrival(plant: Plant, slug: str) -> int:
    return max(call.arrived_ns for call in plant.calls(slug))


ENDED = {"finished_at": {"$ne": None}}


def operations(plant: Plant) -> Any:
    return plant.tracking.database["operations"]


def opened(plant: Plant) -> int:
    return int(operations(plant).count_documents({"finished_at": None}))


def recovered(plant: Plant, *more: str) -> list[dict[str, Any]]:
    done = plant.command("recover", "--redis", "--json", *more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.prove
def test_what_waited_in_an_emptied_redis_is_put_again_and_ends_once(plant: Plant) -> None:
    plant.settings |= {"redis.mirror": True, "recheck.enabled": False, "retry.cap_seconds": 60.0}
    plant.settings["retry.first_seconds"] = 60.0
    slug = plant.courier(per_second=50, fault="status")
    worker = plant.hire().ready()
    plant.producer.put(slug, "AB000000", id="named-0")
    until(lambda: plant.calls(slug), 5.0, "its call fails")
    plant.command("pause", slug)
    for number in range(1, 41):
        plant.producer.put(slug, f"AB{number:06d}", id=f"named-{number}")
        plant.producer.put(slug, f"CD{number // 2:06d}")
    until(lambda: not plant.producer.held(), 10.0, "all jobs go, because all wait in Redis")
    assert opened(plant) == 81
    assert recovered(plant) == []
    assert opened(plant) == 81
    worker.vanish()
    plant.redis.flushdb()

    assert len(recovered(plant, "--dry-run")) == 81
    first = {each["id"]: each["number"] for each in recovered(plant)}
    # It may be done again: what has an id is put again, and is the same operation.
    assert {each["id"] for each in recovered(plant)} == {f"named-{number}" for number in range(41)}
    plant.site.behave(slug)
    plant.hire().ready()

    until(lambda: plant.redis.zcard(TO_ARCHIVE) == opened(plant) == 0, 60.0, "all of them end")
    ended = Counter(each["id"] for each in operations(plant).find(ENDED))
    assert ended == dict.fromkeys(first, 1)
    assert len(first) == 81
    assert all(plant.document(slug, number) for number in first.values())
    plant.held_to_limits()


def test_a_request_whose_job_is_still_there_ends_once_although_it_is_put_again(
    plant: Plant,
) -> None:
    plant.settings |= {"redis.mirror": True, "recheck.enabled": False}
    slug = plant.courier()
    plant.command("pause", slug)
    worker = plant.hire(FAILPOINT="drains.put_drain:after").ready()
    plant.producer.put(slug, "AB000002", id="waits")
    until(lambda: worker.events("process died"), 10.0, "it waits, and its job is not deleted")
    worker.vanish()
    assert plant.producer.held()
    plant.redis.flushdb()

    assert [each["id"] for each in recovered(plant)] == ["waits"]
    plant.hire().ready()

    until(lambda: plant.endings.state("waits") == "SUCCESS", 30.0, "it is answered")
    until(lambda: opened(plant) == 0, 20.0, "its end is archived")
    plant.endings.come(20.0)
    assert operations(plant).count_documents({"id": "waits", **ENDED}) == 1
    assert len(plant.calls(slug)) == 1
