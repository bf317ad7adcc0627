"""Operations in MongoDB: ended ones are found by an index, open ones go with their end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.results.dead import by_operations
from service.worker.results.forgetting import Parcel, clear, mark
from service.worker.results.operations import (
    Mirror,
    by_id,
    by_parcel,
    close_open,
    count_open,
    find_operation,
    open_operations,
    operations_of,
)
from service.worker.results.retention import kinds, purge_some
from tracking.request import Number, Slug, TrackingRequest

USPS, NUMBER = Slug("usps"), Number("9405903699300184125060")
AT_US = 1_772_366_400_000_000
"""2026-03-01, noon."""
JOB = "0123456789abcdef"

AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def operation(name: str, day: int = 0, number: str = "N001", **other: Any) -> Document:
    at = AT + dt.timedelta(days=day)
    ids = {"_id": f"{name}@{round(at.timestamp() * 1000)}", "id": name}
    return {**ids, "slug": "usps", "number": number, "admitted_at": at, **other}


async def test_of_one_id_the_newest_operation_is_found(store: Store) -> None:
    others = [operation(each) for each in ("order-10", "order-1.kick", "order-1:2", "order")]
    ours = [operation("order-1", day, state=f"of day {day}") for day in (0, 30, 2)]
    store.operations.insert_many(others + ours)

    found = find_operation(store.operations, "order-1")

    assert found is not None
    assert found["state"] == "of day 30"
    assert find_operation(store.operations, "order-") is None


async def test_those_of_a_parcel_come_the_newest_first(store: Store) -> None:
    store.operations.insert_many(
        [operation("a", 1), operation("b", 3), operation("c", 2), operation("d", 2, "N002")]
    )

    listed = operations_of(store.operations, "usps", "N001")

    assert [each["id"] for each in listed] == ["b", "c", "a"]
    assert [each["id"] for each in operations_of(store.operations, "usps", "N001", most=1)] == ["b"]


async def test_each_question_reads_one_range_of_an_index_and_nothing_else(store: Store) -> None:
    await store.prepare()
    store.operations.insert_many(
        operation(f"order-{n}", n % 7, f"N{n % 100:03}") for n in range(700)
    )

    by_its_id = store.operations.find(by_id("order-42")).sort("_id", -1).explain()
    of_parcel = store.operations.find(by_parcel("usps", "N042")).sort("admitted_at", -1).explain()

    for told, found in ((by_its_id, 1), (of_parcel, 7)):
        stats = told["executionStats"]
        assert stats["nReturned"] == stats["totalDocsExamined"] == found
        assert found <= stats["totalKeysExamined"] <= found + 1
        plan = told["queryPlanner"]["winningPlan"]
        assert (plan["stage"], plan["inputStage"]["stage"]) == ("FETCH", "IXSCAN")


async def test_records_of_an_operation_are_found_by_an_index(store: Store) -> None:
    await store.prepare()
    store.dead.insert_many({"operations": [f"order-{n}", f"more-{n}"]} for n in range(50))

    told = store.dead.find(by_operations(["order-4"])).explain()

    assert told["executionStats"]["totalDocsExamined"] == told["executionStats"]["nReturned"] == 1


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
