"""A buried job that no record names is recorded again, and is then dead like all others."""

from __future__ import annotations

import datetime as dt

import greenstalk
import pytest

from devstack.servers import Server
from service.worker.deliveries.foreign_request import ForeignRequest, encode_foreign
from service.worker.deliveries.ingest_label import new_label
from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, WEBHOOKS_TUBE
from service.worker.upkeep import lost_records
from service.worker.upkeep.lost_records import LostRecords
from tracking.request import MAIN, Slug

EMPTY, LONG = b"", b"x" * 5000
READABLE = b'{"type":"requests_flow","payload":{"slug":"usps","number":"94000001"}}'
FOREIGN = encode_foreign(
    ForeignRequest(
        id="0" * 32,
        label=new_label(MAIN, "erp", b"k" * 32),
        received_at=dt.datetime(2026, 11, 26, tzinfo=dt.UTC),
        method="POST",
        target="/",
        url="https://in.example/",
        headers=(),
        body=b"",
    )
)
NAMES = Names("", dead_keep_days=30)

Tube = greenstalk.Client[bytes]


def bury(beanstalkd: Server, *bodies: bytes, tube: str = REQUESTS_TUBE) -> list[int]:
    client: Tube
    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, use=tube, watch=tube) as client:
        jobs = [client.put(body, priority=7) for body in bodies]
        for _ in jobs:
            client.bury(client.reserve(timeout=1), 7)
    return jobs


def looking(store: Store, *servers: str, names: Names = NAMES) -> LostRecords:
    return LostRecords(store, names, servers, lambda slug: (Slug(slug), ""))


def recorded(store: Store) -> dict[int, str]:
    return {each["job"]: each["reason"] for each in store.dead.find(sort=[("job", 1)])}


async def test_a_buried_job_without_a_record_is_recorded_and_stays_as_it_is(
    store: Store, beanstalkd: Server, tube: Tube
) -> None:
    empty, long, readable = bury(beanstalkd, EMPTY, LONG, READABLE)
    (drain,) = bury(beanstalkd, b"{", tube=DRAINS_TUBE)
    foreign, malformed = bury(beanstalkd, FOREIGN, b"{", tube=WEBHOOKS_TUBE)

    await looking(store, beanstalkd.url).look()

    reasons = {empty: "bad_json", long: "bad_json", readable: "buried", drain: "bad_json"}
    reasons |= {foreign: "buried", malformed: "bad_shape"}
    assert recorded(store) == reasons
    found = store.dead.find_one({"job": readable})
    assert found is not None
    assert (found["slug"], found["number"], found["server"]) == ("usps", "94000001", beanstalkd.url)
    assert found["body"] == READABLE.decode()
    assert tube.stats_tube(REQUESTS_TUBE)["current-jobs-buried"] == 3
    assert tube.stats_job(empty)["pri"] == 7


async def test_each_is_told_of_in_the_log_once(
    store: Store, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, object]] = []
    monkeypatch.setattr(lost_records, "emit", lambda event, **more: told.append((event, more)))
    (job,) = bury(beanstalkd, READABLE)
    looks = looking(store, beanstalkd.url)

    await looks.look()
    await looks.look()

    ((event, fields),) = told
    assert event == "buried job had no record"
    assert fields == {
        "slug": "usps",
        "number": "94000001",
        "job": job,
        "server": beanstalkd.url,
        "why": "buried",
        "detail": "buried without a record, and can be read: kick it",
    }


async def test_a_job_with_a_record_is_left_alone_but_not_another_one_of_its_id(
    store: Store, beanstalkd: Server
) -> None:
    one, other = bury(beanstalkd, EMPTY, b"[]")
    for job in (one, other):
        store.dead.insert_one({"_id": f"r{job}", "server": beanstalkd.url, "job": job, "body": ""})

    await looking(store, beanstalkd.url).look()

    assert {each["job"] for each in store.dead.find({"reason": {"$exists": True}})} == {other}


async def test_a_job_that_is_older_than_records_are_kept_is_left_to_the_purge(
    store: Store, beanstalkd: Server
) -> None:
    bury(beanstalkd, READABLE)

    await looking(store, beanstalkd.url, names=Names("", dead_keep_days=0)).look()

    assert recorded(store) == {}


async def test_a_look_ends_after_some_jobs_and_the_next_one_goes_on_behind_them(
    store: Store, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_records, "JOBS_MOST", 2)
    jobs = bury(beanstalkd, *[READABLE] * 3)
    looks = looking(store, beanstalkd.url)

    await looks.look()
    assert list(recorded(store)) == jobs[:2]

    await looks.look()
    assert list(recorded(store)) == jobs


async def test_a_server_that_is_away_keeps_nobody_from_looking_at_the_others(
    store: Store, beanstalkd: Server
) -> None:
    (job,) = bury(beanstalkd, EMPTY)

    await looking(store, "127.0.0.1:1", beanstalkd.url).look()

    assert list(recorded(store)) == [job]
