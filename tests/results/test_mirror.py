"""Open operations: written before the job goes, seen by nobody as ended, gone with their end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from service.results.connection import Store
from service.results.database import Document, Names
from service.results.forgetting import Parcel, clear, mark
from service.results.operations import (
    Mirror,
    close_open,
    count_open,
    find_operation,
    open_operations,
    operations_of,
)
from service.results.retention import kinds, purge_some
from tracking.request import Number, Slug, TrackingRequest

USPS, NUMBER = Slug("usps"), Number("9405903699300184125060")
AT_US = 1_772_366_400_000_000
"""2026-03-01, noon."""

JOB = "0123456789abcdef"


def request(identity: str | None = "order-1") -> TrackingRequest:
    return TrackingRequest(USPS, NUMBER, NUMBER, id=identity)


def instant(us: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(us / 1_000_000, dt.UTC)


def unnamed(job: str) -> str:
    return f"usps:{NUMBER}:{job}"


def ended(identity: str, admitted_us: int = AT_US) -> Document:
    return {
        "_id": f"{identity}@{admitted_us // 1000}",
        "id": identity,
        "slug": "usps",
        "number": NUMBER,
        "admitted_at": instant(admitted_us),
        "finished_at": instant(admitted_us + 2_000_000),
        "state": "SUCCESS",
    }


@pytest.fixture
async def mirror(store: Store) -> Mirror:
    await store.prepare()
    return Mirror(store, lambda each: f"body of {each.id}".encode())


def left(store: Store) -> Sequence[str]:
    return sorted(each["_id"] for batch in open_operations(store.operations) for each in batch)


async def test_a_request_that_waits_stands_there_with_its_job(mirror: Mirror, store: Store) -> None:
    for _ in range(2):  # the reply was lost, or its job came back
        await mirror.add(request(), JOB, AT_US)
        await mirror.add(request(None), JOB, AT_US)

    (batch,) = open_operations(store.operations)
    named, other = sorted(batch, key=lambda each: str(each["_id"]))
    assert named == {
        "_id": "order-1",
        "account": "main",
        "id": "order-1",
        "slug": "usps",
        "number": NUMBER,
        "origin": "MANUAL",
        "state": "WAITING",
        "admitted_at": instant(AT_US),
        "anonymous": False,
        "body": b"body of order-1",
    }
    assert (other["_id"], other["anonymous"]) == (unnamed(JOB), True)
    assert count_open(store.operations) == 2


async def test_nobody_takes_an_open_one_for_one_that_ended(mirror: Mirror, store: Store) -> None:
    await mirror.add(request(), JOB, AT_US)
    await mirror.add(request(None), JOB, AT_US)

    assert find_operation(store.operations, "order-1") is None
    assert operations_of(store.operations, "usps", NUMBER) == []
    long_after = instant(AT_US) + dt.timedelta(days=10_000)
    for kind in kinds(store, Names("", "", operations_keep_days=1), long_after):
        purge_some(kind)
    assert left(store) == ["order-1", unnamed(JOB)]


async def test_it_goes_with_the_end_of_its_operation_and_no_other(
    mirror: Mirror, store: Store
) -> None:
    for each in ("order-1", "order-2", "order-10"):
        await mirror.add(request(each), JOB, AT_US)

    for _ in range(2):
        close_open(store.operations, ["order-1", "unknown"], [ended("order-1")])

    assert left(store) == ["order-10", "order-2"]


async def test_requests_without_an_id_go_with_the_operation_that_they_joined(
    mirror: Mirror, store: Store
) -> None:
    """The second and the third joined the first; the fourth came while their call ran."""
    jobs = [f"{n}123456789abcdef" for n in range(5)]
    for n, job in enumerate(jobs):
        await mirror.add(request(None), job, AT_US + n * 1_000_000)
    await mirror.add(request("order-1"), JOB, AT_US + 2_000_000)

    # Its status tells when the newest of them came.
    last = ended(unnamed(jobs[1]), AT_US + 3_000_000)
    close_open(store.operations, [unnamed(jobs[1])], [last])

    assert left(store) == ["order-1", unnamed(jobs[0]), unnamed(jobs[4])]


async def test_what_an_id_left_that_is_used_again_is_written_over(
    mirror: Mirror, store: Store
) -> None:
    await mirror.add(request(), JOB, AT_US)
    later_us = AT_US + 2 * 86_400_000_000

    await mirror.add(request()._replace(given="9405 9036"), JOB, later_us)

    ((found,),) = open_operations(store.operations)
    assert found["admitted_at"] == instant(later_us)


async def test_a_forgotten_parcel_is_not_written_down_and_what_is_goes(
    mirror: Mirror, store: Store
) -> None:
    await mirror.add(request(), JOB, AT_US)
    parcel = Parcel("usps", NUMBER, AT_US + 1_000_000)
    mark(store.forgotten, [parcel], 3_600)

    assert clear(store, parcel)["operations"] == 1
    await mirror.add(request("order-2"), JOB, AT_US)
    await mirror.add(request("order-3"), JOB, AT_US + 2_000_000)

    assert left(store) == ["order-3"]


async def test_one_that_mongodb_refuses_does_not_hold_up_the_others(
    mirror: Mirror, store: Store
) -> None:
    store.operations.database.command(
        "collMod", store.operations.name, validator={"_id": {"$ne": "order-1"}}
    )
    asked = [mirror.add(request(f"order-{n}"), JOB, AT_US) for n in range(3)]

    for each in asked:
        await each

    assert left(store) == ["order-0", "order-2"]
