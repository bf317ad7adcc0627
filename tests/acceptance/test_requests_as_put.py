"""docs/interface.md §1: what producers may say about a request, and what then happens.

The same thing wanted more than once: one call answers everybody who finds it fresh enough. A parcel
is forgotten while workers work on it: nothing of it comes back unasked.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from plant import Plant
from running_worker import until

from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.tubes.put_servers import Putter
from service.worker.upkeep.recheck import Recheck
from tracking.request import Slug
from tracking.tally import tally_of

NOT_FOUND = b'{"error":{"message":"Your reference number could not be found"}}'


@contextmanager
def listening() -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """A courier that knows no parcel and remembers what it was asked: its address, the queries."""
    asked: list[dict[str, list[str]]] = []

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(parse_qs(urlsplit(self.path).query))
            self.send_response(404)
            self.send_header("Content-Length", str(len(NOT_FOUND)))
            self.end_headers()
            self.wfile.write(NOT_FOUND)

        def log_message(self, *_: object) -> None:
            """Write nothing: the queries are the record."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.guest
def test_a_fresh_answer_does_unless_the_request_wants_a_newer_one(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "AB000001", id=f"{slug}-first")
    plant.endings.come(10.0)
    plant.producer.put(slug, "AB000001", id=f"{slug}-default")
    plant.producer.put(slug, "AB000001", id=f"{slug}-hour", max_age=3600)
    plant.endings.come(10.0)
    assert len(plant.calls(slug)) == 1

    time.sleep(1.0)
    plant.producer.put(slug, "AB000001", id=f"{slug}-second", max_age=1)
    plant.endings.come(10.0)
    assert len(plant.calls(slug)) == 2
    plant.producer.put(slug, "AB000001", id=f"{slug}-now", max_age=0)
    plant.endings.come(10.0)
    assert len(plant.calls(slug)) == 3


@pytest.mark.guest
def test_an_answer_that_only_mongodb_remembers_is_fresh_enough_for_who_says_so(
    plant: Plant,
) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.producer.put(slug, "AB000001", id=f"{slug}-first")
    plant.endings.come(10.0)
    keys = list(plant.redis.scan_iter(f"tracking:answer:{slug}:*"))
    assert plant.redis.delete(*keys) == 1
    plant.producer.put(slug, "AB000001", id=f"{slug}-hour", max_age=3600)
    plant.endings.come(10.0)
    assert len(plant.calls(slug)) == 1


@pytest.mark.guest
def test_a_request_that_has_expired_is_cancelled_without_a_call(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    an_hour_ago = time.time() - 3600
    plant.producer.put(
        slug, "AB000001", id=f"{slug}-late", expires_in=60, meta={"enqueued_at": an_hour_ago}
    )
    plant.producer.put(slug, "AB000002", id=f"{slug}-in-time", expires_in=60)
    plant.endings.come(10.0)

    assert plant.endings.state(f"{slug}-late") == "CANCELLED"
    assert plant.endings.state(f"{slug}-in-time") == "SUCCESS"
    assert [call.number for call in plant.calls(slug)] == ["AB000002"]


@pytest.mark.guest
def test_a_request_that_expires_in_the_tube_is_cancelled_by_the_age_of_its_job(
    plant: Plant,
) -> None:
    slug = plant.courier()
    plant.hire().ready()
    body = {"slug": slug, "number": "AB000001", "id": f"{slug}-aged", "expires_in": 1}
    job = json.dumps({"type": "requests_flow", "payload": body}).encode()
    plant.producer.put_body(job, delay=3)  # beanstalkd counts a job's age in whole seconds
    until(lambda: plant.endings.state(f"{slug}-aged") == "CANCELLED", 10.0, "it is cancelled")

    assert not plant.calls(slug)


@pytest.mark.guest
def test_a_request_that_expires_in_line_is_cancelled_without_a_call(plant: Plant) -> None:
    slug = plant.courier(concurrent=1, latency=1.3)
    plant.hire().ready()
    plant.producer.put(slug, "AB000001")
    until(lambda: plant.calls(slug), 5.0, "the slot is taken")
    plant.producer.put(slug, "AB000002", id=f"{slug}-impatient", expires_in=1)
    plant.producer.put(slug, "AB000003", id=f"{slug}-patient")
    plant.endings.come(15.0)

    assert plant.endings.state(f"{slug}-impatient") == "CANCELLED"
    assert plant.endings.state(f"{slug}-patient") == "SUCCESS"
    assert [call.number for call in plant.calls(slug)] == ["AB000001", "AB000003"]


@pytest.mark.guest
def test_what_waits_can_be_cancelled_and_what_runs_goes_on(plant: Plant) -> None:
    slug = plant.courier(concurrent=1, held=True)
    plant.hire().ready()
    plant.producer.put(slug, "AB000001", id=f"{slug}-runs")
    until(lambda: plant.calls(slug), 5.0, "the slot is taken")
    plant.producer.put(slug, "AB000002", id=f"{slug}-waits")
    until(lambda: plant.redis.llen(f"wait_list:{slug}") == 1, 5.0, "it waits")
    cancelled = plant.command("cancel", slug, "AB000002", "--json")
    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(cancelled.stdout)["cancelled"] == 1
    plant.site.behave(slug)
    plant.endings.come(15.0)

    assert plant.endings.state(f"{slug}-waits") == "CANCELLED"
    assert plant.endings.state(f"{slug}-runs") == "SUCCESS"
    assert [call.number for call in plant.calls(slug)] == ["AB000001"]


def test_requests_are_asked_in_the_order_in_which_they_were_put_and_one_in_four_is_automatic(
    plant: Plant,
) -> None:
    slug, mixed = plant.courier(per_second=4), plant.courier(per_second=4, latency=0.05)
    numbers = [f"AB{number:06d}" for number in range(16)]
    plant.producer.put_all(slug, numbers)
    for number in range(13):
        plant.producer.put(mixed, f"AUTO{number:04d}", origin="AUTOMATIC")
    for number in range(13):
        plant.producer.put(mixed, f"HAND{number:04d}")
    plant.hire().ready()
    plant.endings.come(30.0)

    # Four start in the same instant, and may arrive in any order.
    arrived = [call.number for call in plant.calls(slug)]
    assert [sorted(arrived[n : n + 4]) for n in range(0, 16, 4)] == [
        numbers[n : n + 4] for n in range(0, 16, 4)
    ]
    # The first four started before anybody waited; then both lists were full for 12 calls.
    order = [call.number[:4] for call in plant.calls(mixed)][4:16]
    assert [order[n : n + 4].count("AUTO") for n in (0, 4, 8)] == [1, 1, 1]


async def look(plant: Plant, slug: str) -> int:
    """Look for re-checks that are due, as each worker does twice a minute."""
    names = Names(plant.mongodb_server.url, plant.tracking.database.name)
    store, putter = Store(names), Putter([plant.beanstalkd.url])
    try:
        return await Recheck(store, putter, [Slug(slug)]).look()
    finally:
        putter.close()
        await store.close()


def test_the_postal_code_reaches_the_courier_with_each_re_check_and_aliases_reach_nothing(
    plant: Plant,
) -> None:
    number = "15501234567890"
    plant.settings["requests.max_age_seconds"] = 0
    plant.settings["recheck.slugs.dpd-uk.pending_hours"] = 100
    with listening() as (address, asked):
        plant.settings["couriers.dpd-uk.base_url"] = address
        worker = plant.hire().ready()
        body = {"slug": "dpduk", "number": number, "tracking_postal_code": "SW1A 1AA"}
        plant.producer.put_body(json.dumps({"type": "requests_flow", "payload": body}).encode())
        document = until(lambda: plant.document("dpd-uk", number), 10.0, "it is stored")
        past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
        plant.tracking.update_one({}, {"$set": {"next_check_at": past}})
        assert asyncio.run(look(plant, "dpd-uk")) == 1
        until(lambda: len(asked) == 2, 10.0, "it is asked about again")

    assert [query["postcode"] for query in asked] == [["SW1A 1AA"]] * 2
    assert (document["slug"], document["fields"]) == (
        "dpd-uk",
        {"tracking_postal_code": "SW1A 1AA"},
    )
    wait = document["next_check_at"] - document["last_checked_at"]
    assert 90 <= wait / dt.timedelta(hours=1) <= 110
    assert not list(plant.redis.scan_iter("*dpduk*"))
    assert "dpduk" not in json.dumps(worker.lines)


@pytest.mark.guest
def test_every_way_to_write_a_number_is_one_number(plant: Plant) -> None:
    slug = plant.courier(latency=0.2)
    plant.hire().ready()
    for given in ("ab 123-456 us", "  AB123456US ", "AB-123-456-US", "ab123456us"):
        body = {"slug": slug, "number": given}
        plant.producer.put_body(json.dumps({"type": "requests_flow", "payload": body}).encode())
    until(lambda: plant.document(slug, "AB123456US"), 10.0, "it is stored")
    plant.endings.come(10.0)

    assert [call.number for call in plant.calls(slug)] == ["AB123456US"]
    stored = plant.tracking.find({"slug": slug})
    assert [each["tracking_number"] for each in stored] == ["AB123456US"]


@pytest.mark.guest
def test_jobs_wrapped_by_other_clients_are_read(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    job = {"type": "requests_flow", "payload": {"slug": slug, "number": "AB000001"}}
    plant.producer.put_body(json.dumps(["requests_flow", job]).encode())

    until(lambda: plant.document(slug, "AB000001"), 10.0, "it is answered")


@pytest.mark.guest
def test_a_number_pushed_by_hand_is_asked_for(plant: Plant) -> None:
    slug = plant.courier()
    plant.hire().ready()
    plant.redis.rpush(f"wait_list:{slug}", "AB000001", "AB000002", "AB000003")

    answered = {"slug": slug, "last_checked_at": {"$ne": None}}
    until(lambda: plant.tracking.count_documents(answered) == 3, 12.0, "all three are answered")
    plant.endings.come(10.0)


COPIES = 3_000


def test_thousands_of_copies_of_a_request_are_one_call(plant: Plant) -> None:
    plant.hasty_beanstalkd()
    slug = plant.courier(latency=0.3)
    plant.producer.put_copies(slug, "AB123456", COPIES)
    plant.hire(processes=2).ready()
    plant.endings.come(60.0)

    assert len(plant.calls(slug)) == 1
    assert plant.tracking.count_documents({}) == 1
    assert plant.producer.jobs()["ready"] == 0


@pytest.mark.guest
def test_the_same_id_is_one_operation_however_often_it_is_put(plant: Plant) -> None:
    slug = plant.courier(latency=0.3)
    plant.hire().ready()
    for _ in range(3):
        plant.producer.put(slug, "AB123456", id=f"{slug}-order-1", max_age=0)
    plant.endings.come(20.0)
    plant.producer.put(slug, "AB123456", id=f"{slug}-order-1", max_age=0)
    plant.endings.come(20.0)
    assert len(plant.calls(slug)) == 1

    plant.producer.put(slug, "AB123456", id=f"{slug}-order-2", max_age=0)
    plant.endings.come(20.0)
    assert len(plant.calls(slug)) == 2

    plant.producer.put(slug, "AB999999", id=f"{slug}-order-1", max_age=0)
    own = {"slug": slug}
    until(lambda: plant.dead.count_documents(own), 10.0, "the id of another parcel is recorded")
    (refused,) = plant.dead.find(own)
    assert (refused["reason"], refused["number"]) == ("id_reused", "AB999999")
    assert f"{slug} AB123456" in refused["detail"]
    until(lambda: plant.producer.jobs()["reserved"] == 0, 10.0, "its job is deleted")
    assert len(plant.calls(slug)) == 2
    assert plant.endings.state(f"{slug}-order-1") == "SUCCESS"


def test_a_job_whose_worker_died_is_asked_once_more_at_once_and_counted_once(plant: Plant) -> None:
    """F1: the job was deleted before its result was there."""
    plant.settings |= {"limits.call_timeout_seconds": 20.0, "limits.lease_seconds": 40.0}
    slug = plant.courier(fault="hang", first=1)
    doomed = plant.hire().ready()
    plant.producer.put(slug, "AB123456", id="order-1")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    plant.hire().ready()
    doomed.vanish()
    killed = time.monotonic_ns()
    until(lambda: len(plant.calls(slug)) == 2, 5.0, "the call is made again")
    again = plant.calls(slug)[1].arrived_ns
    plant.measured(
        "until a killed worker's job is asked again", [f"{(again - killed) / 1e6:.0f} ms"]
    )

    until(lambda: plant.endings.state("order-1") == "SUCCESS", 10.0, "it is answered")
    assert len(plant.calls(slug)) == 2
    told = tally_of(map(plant.redis.hgetall, plant.redis.keys(f"tracking:stats2:{slug}:*")))
    assert told.counts == {"lost": 1, "SUCCESS": 1}
    document = plant.document(slug, "AB123456")
    assert document
    assert document["tracked_count"] == 1


@pytest.mark.guest
def test_who_waits_for_a_number_that_runs_is_answered_by_that_call(plant: Plant) -> None:
    slug = plant.courier(latency=1.0)
    plant.hire().ready()
    plant.producer.put(slug, "AB123456", id=f"{slug}-first")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    plant.producer.put(slug, "AB123456", id=f"{slug}-second")
    plant.producer.put(slug, "AB123456")
    plant.endings.come(20.0)

    assert len(plant.calls(slug)) == 1
    assert plant.endings.state(f"{slug}-second") == "SUCCESS"


@pytest.mark.guest
def test_who_finds_the_running_call_too_old_gets_one_of_their_own_after_it(plant: Plant) -> None:
    slug = plant.courier(latency=1.0)
    plant.hire().ready()
    plant.producer.put(slug, "AB123456", id=f"{slug}-first")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")
    plant.producer.put(slug, "AB123456", id=f"{slug}-second", max_age=0)
    plant.endings.come(20.0)

    first, second = plant.calls(slug)
    assert first.ended_ns
    assert second.arrived_ns >= first.ended_ns, "a number never runs twice at once"


NUMBER = "AB123456"


@pytest.mark.guest
def test_a_running_calls_answer_is_discarded_and_a_later_request_is_answered_and_stored(
    plant: Plant,
) -> None:
    slug = plant.courier(held=True)
    plant.hire().ready()
    plant.producer.put(slug, NUMBER, id=f"{slug}-before")
    until(lambda: plant.calls(slug), 5.0, "the call arrives")

    done = plant.command("forget", slug, NUMBER, "--yes", "--json")
    told = json.loads(done.stdout)
    assert (told["calls"], told["cancelled"]) == (1, 1)
    assert plant.endings.state(f"{slug}-before") == "CANCELLED"
    plant.producer.put(slug, NUMBER, id=f"{slug}-after")
    plant.site.behave(slug)

    until(lambda: plant.endings.state(f"{slug}-after") == "SUCCESS", 20.0, "it is asked again")
    first, second = plant.calls(slug)
    document = plant.document(slug, NUMBER)
    assert document
    assert (document["tracked_count"], len(document["attempts"])) == (1, 1)
    # Nothing of the first answer is left: the document begins with the second call.
    assert document["created_at"].timestamp() > first.arrived_ns / 1e9
    assert second.arrived_ns > first.arrived_ns
