"""Of a million archived operations each is found by one range of one index."""

from __future__ import annotations

import datetime as dt
from typing import Any

from service.results.connection import Store
from service.results.database import Document
from service.results.dead import by_operations
from service.results.operations import by_id, by_parcel, find_operation, operations_of

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
