"""Indexes and validators of others: which are in the worker's way, and what to do about them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import ConnectionFailure, OperationFailure
from store_parcels import prepared

from service.worker.preflight.judgement import UnsafeServer
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Names
from service.worker.results.failure import mongodb_down
from service.worker.results.schema_conflicts import Conflict, schema_conflicts
from service.worker.wiring.connect import _prepared
from tracking.errors import ResultsDown

Keys = list[tuple[str, int]]


@pytest.fixture
def database(fresh: str) -> str:
    return fresh


@pytest.fixture
def bucket(store: Store, database: str) -> Database[Any]:
    return store.client[database]


def look(bucket: Database[Any], **names: Any) -> list[Conflict]:
    called = Names("", bucket.name, **names)
    return schema_conflicts(Collections(bucket.client, called), called)


def do_what_it_says(bucket: Database[Any], fix: str) -> None:
    """What mongosh would do with the command of a fix."""
    database, collection, index = re.findall(r'"(\w+)"', fix)
    assert database == bucket.name
    bucket[collection].drop_index(index)


@pytest.mark.parametrize(
    ("collection", "keys", "options"),
    [
        ("dead", [("at", 1)], {}),
        ("dead", [("at", 1)], {"expireAfterSeconds": 5}),
        ("unreadable", [("at", 1)], {}),
        ("tracking_past", [("updated_at", 1)], {}),
        ("tracking", [("tracking_number", 1)], {"unique": True}),
        ("tracking_past", [("slug", 1), ("tracking_number", 1)], {"unique": True}),
        ("dead", [("number", 1)], {"unique": True, "sparse": True}),
    ],
)
async def test_an_index_that_is_in_the_way_is_named_with_the_command_that_drops_it(
    mongo_uri: str, bucket: Database[Any], collection: str, keys: Keys, options: dict[str, Any]
) -> None:
    bucket[collection].create_index(keys, name="by_somebody", **options)

    (told,) = look(bucket, results_keep_days=7)
    assert "by_somebody" in told.what
    assert told.sure

    do_what_it_says(bucket, told.fix)
    await prepared(mongo_uri, 7, bucket.name)
    assert look(bucket, results_keep_days=7) == []


async def test_an_index_that_has_the_name_of_one_of_the_workers_is_named(
    store: Store, bucket: Database[Any]
) -> None:
    bucket["tracking"].create_index([("signed_by", 1)], name="updated_at_1__id_1")

    (told,) = look(bucket)

    assert "updated_at_1__id_1" in told.what
    do_what_it_says(bucket, told.fix)
    await store.prepare()


async def test_an_index_that_does_the_same_under_another_name_is_used(
    store: Store, bucket: Database[Any]
) -> None:
    await store.prepare()
    tracking: Collection[Any] = bucket["tracking"]
    (due,) = [each for each in tracking.list_indexes() if "next_check_at" in each["key"]]
    for name in (due["name"], "updated_at_1__id_1"):
        tracking.drop_index(name)
    partial = due["partialFilterExpression"]
    tracking.create_index(list(due["key"].items()), name="due", partialFilterExpression=partial)
    tracking.create_index([("updated_at", 1), ("_id", 1)], name="changes", unique=False)
    before = tracking.index_information()

    assert look(bucket) == []
    await store.prepare()

    assert tracking.index_information() == before


@pytest.mark.parametrize("days", [0, 30])
async def test_what_the_worker_made_itself_is_in_nobodys_way(
    mongo_uri: str, bucket: Database[Any], days: int
) -> None:
    await prepared(mongo_uri, days, bucket.name)
    bucket["tracking"].create_index([("slug", 1), ("tracking_number", 1)], unique=True)
    bucket["tracking"].create_index([("signed_by", 1)])

    assert look(bucket, results_keep_days=days) == []


async def test_one_document_for_each_number_is_not_enough_where_several_accounts_ask(
    mongo_uri: str, bucket: Database[Any]
) -> None:
    await prepared(mongo_uri, 0, bucket.name)
    apart = bucket["tracking"].create_index(["slug", "tracking_number"], unique=True)
    bucket["tracking"].create_index(["slug", "tracking_number", "account"], unique=True)
    bucket["accounts"].insert_one({"_id": "shop"})

    [told] = look(bucket)

    assert apart in told.what
    do_what_it_says(bucket, told.fix)
    assert look(bucket) == []


EVERYTHING = "an answer and that a number is not known and a change that somebody is to hear of"


@pytest.mark.parametrize(
    ("collection", "validator", "told"),
    [
        ("tracking", {"number": {"$type": "string"}}, EVERYTHING),
        ("tracking", {"untold": None}, "a change that somebody is to hear of"),
        ("tracking", {"checkpoints.0": {"$exists": True}}, "that a number is not known"),
        ("tracking_past", {"$jsonSchema": {"required": ["tracking"]}}, "an earlier parcel"),
        ("dead", {"$expr": {"$gt": ["$attempts", 1]}}, "a dead request"),
    ],
)
def test_a_validator_that_refuses_what_the_worker_writes_is_named(
    bucket: Database[Any], collection: str, validator: dict[str, Any], told: str
) -> None:
    bucket.create_collection(collection, validator=validator)

    (found,) = look(bucket)

    assert found.what.endswith(f"refuses what the worker writes there: {told}")
    assert f'collMod: "{collection}"' in found.fix
    assert found.sure


@pytest.mark.parametrize(
    "options",
    [
        {"validator": {"$jsonSchema": {"required": ["slug", "tracking_number", "tag"]}}},
        {"validator": {"nothing": "like it"}, "validationAction": "warn"},
        {"validator": {"nothing": "like it"}, "validationLevel": "off"},
    ],
)
def test_a_validator_that_refuses_nothing_is_in_nobodys_way(
    bucket: Database[Any], options: dict[str, Any]
) -> None:
    bucket.create_collection("tracking", **options)

    assert look(bucket) == []


def test_a_validator_of_which_nobody_can_tell_is_a_warning(bucket: Database[Any]) -> None:
    bucket.create_collection("unreadable", validator={"slug": {"$exists": True}})

    (found,) = look(bucket)

    assert not found.sure


def test_a_view_in_the_place_of_a_collection_is_named(bucket: Database[Any]) -> None:
    bucket.create_collection("tracking", viewOn="parcels", pipeline=[])

    (found,) = look(bucket)

    assert f"has a view {bucket.name}.tracking" in found.what


class Prepares:
    """A store over whose indexes MongoDB says something."""

    def __init__(self, said: Exception) -> None:
        self._said = said

    async def prepare(self) -> None:
        raise mongodb_down(self._said) from self._said


@pytest.mark.parametrize(
    ("said", "leads_to"),
    [
        (OperationFailure("Index already exists with a different name: x", 85), UnsafeServer),
        (OperationFailure("not authorized on bucket", 13), UnsafeServer),
        (OperationFailure("operation was interrupted", 11601), ResultsDown),
        (ConnectionFailure("connection closed"), ResultsDown),
    ],
)
async def test_a_start_goes_on_trying_only_where_that_may_help(
    said: Exception, leads_to: type[Exception]
) -> None:
    store: Any = Prepares(said)
    with pytest.raises(leads_to):
        await _prepared(store)


async def test_unique_indexes_of_the_worker_itself_are_in_nobodys_way(
    store: Store, bucket: Database[Any]
) -> None:
    await store.prepare()

    assert look(bucket) == []
