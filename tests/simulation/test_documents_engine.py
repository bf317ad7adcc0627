"""The collections of the simulation answer and keep what those of a real MongoDB do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError
from simulated.documents import Database, Documents

from service.worker.deliveries.outbox import _without
from service.worker.deliveries.store import _services_with_due
from service.worker.results.connection import Store
from service.worker.results.database import EPOCH

NOW = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(minutes=1)
OPEN = {"service": "s1", "state": "open"}
UNTOLD = {"untold": [{"id": "x", "at": NOW}, {"id": "z", "at": LATER}]}
LIST = [{"id": 1}, {"id": 2}]
GIVEN: list[dict[str, Any]] = [
    {"_id": "a", **OPEN, "next_at": NOW, "n": 1, "revision": 4, **UNTOLD},
    {"_id": "b", **OPEN, "next_at": LATER, "health": {"failing_since": NOW}},
    {"_id": "c", "service": "s2", "state": "held", "next_at": NOW, "ended_at": None},
    {
        "_id": "d",
        "service": "s2",
        "state": "open",
        "next_at": LATER,
        "list": [{"id": 1}, {"id": 2}],
    },
]
FOUND: list[dict[str, Any]] = [
    {},
    {"_id": "b"},
    {"_id": {"$in": ["d", "a", "no"]}},
    {"_id": {"$gt": "b"}, "state": "open"},
    {"ended_at": None},
    {"state": {"$ne": "open"}},
    {"state": {"$in": ["held", "dead"]}},
    {"n": {"$nin": [1]}},
    {"n": {"$exists": False}},
    {"next_at": {"$lte": NOW}},
    {"next_at": {"$gt": EPOCH, "$lt": LATER}},
    {"n": {"$gt": 0}},
    {"health.failing_since": {"$ne": None}},
    {"health.failing_since": None},
    {"untold.at": {"$gt": EPOCH, "$lt": LATER}},
    {"untold.id": {"$in": ["x"]}},
    {"list.id": 2},
    {"list.0.id": 2},
    {"$or": [{"service": "s2", "state": "held"}, {"n": 1}]},
]
CHANGED: list[tuple[dict[str, Any], Any]] = [
    ({"_id": "a", "untold.id": {"$in": ["x"]}}, _without(["y"])),
    ({"_id": "a", "untold.id": {"$in": ["x"]}}, _without(["x"])),
    ({"_id": "a", "untold.id": {"$in": ["z"]}}, _without(["z"])),
    ({"_id": "b"}, {"$unset": {"health.failing_since": ""}}),
    ({"_id": "b"}, {"$set": {"health.holds": True, "why": "gone"}}),
    ({"_id": "c"}, {"$inc": {"n": 2}, "$max": {"most.m": 3}}),
    ({"_id": "c"}, {"$inc": {"n": 2}, "$max": {"most.m": 1}}),
    ({"_id": "no"}, {"$set": {"n": 1}}),
]


def _all(collection: Any) -> list[dict[str, Any]]:
    return list(collection.find({}).sort("_id"))


def test_what_is_asked_is_answered_as_by_a_real_mongodb(store: Store) -> None:
    ours, theirs = Database(), store.deliveries
    ours["deliveries"] = Documents("deliveries", ours)

    theirs.insert_many(GIVEN, ordered=False)
    ours["deliveries"].insert_many(GIVEN, ordered=False)

    for wanted in FOUND:
        order = [("next_at", 1), ("_id", -1)]
        found = list(theirs.find(wanted, sort=order, limit=3))
        assert ours["deliveries"].find(wanted, sort=order, limit=3) == found, wanted
        count = theirs.count_documents(wanted)
        assert ours["deliveries"].count_documents(wanted) == count, wanted


def test_what_is_changed_is_kept_as_by_a_real_mongodb(store: Store) -> None:
    ours = Documents("deliveries", Database())
    steps: list[Callable[[Any], Any]] = [
        lambda at: _known(at, GIVEN),
        lambda at: _known(at, [GIVEN[0], {"_id": "e", "n": 0}, GIVEN[2]]),
        *(_update(wanted, change) for wanted, change in CHANGED),
        lambda at: at.update_many({"state": "open"}, {"$set": {"state": "dead"}}).modified_count,
        lambda at: at.update_one({"_id": "f"}, {"$set": {"g.h": 1}}, upsert=True).matched_count,
        lambda at: at.find_one_and_update(
            {"_id": "g"},
            {"$inc": {"n": 1}, "$setOnInsert": {"first": True}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        ),
        lambda at: at.delete_many({"state": "dead", "service": "s1"}) and None,
    ]

    for number, step in enumerate(steps):
        told, theirs = step(ours), step(store.deliveries)
        assert told == theirs, number
        assert _all(ours) == _all(store.deliveries), number


def test_services_that_have_something_due_are_found_as_by_a_real_mongodb(store: Store) -> None:
    ours = Database()
    for name in ("services", "deliveries"):
        ours[name] = Documents(name, ours)
    services = [{"_id": each} for each in ("s1", "s2", "s3")]
    stores: list[Any] = [store, _Stores(ours)]

    for each in stores:
        each.deliveries.insert_many(GIVEN, ordered=False)
        each.services.insert_many(services, ordered=False)
    ours_found, theirs = (_services_with_due(each, ["s1", "s2", "s3"], NOW) for each in stores)

    assert ours_found == theirs == {"s1"}


class _Stores:
    def __init__(self, database: Database) -> None:
        self.deliveries, self.services = database["deliveries"], database["services"]


def _update(wanted: dict[str, Any], change: Any) -> Callable[[Any], Any]:
    return lambda at: at.bulk_write([UpdateOne(wanted, change)], ordered=False).matched_count


def _known(collection: Any, documents: list[dict[str, Any]]) -> list[int]:
    try:
        collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        return [each["index"] for each in error.details["writeErrors"]]
    return []
