"""The indexes of the database, and `[results] keep_days`, by which MongoDB deletes what ended."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.monitoring import CommandListener, CommandStartedEvent
from store_parcels import FIRST, days, delivered, prepared, stored

from devstack.kinds import MONGODB, Durability
from devstack.servers import Server, running
from devstack.stack import Stack
from service.worker.results import shipments
from service.worker.results.connection import Store
from service.worker.results.database import (
    KEEP_DAYS_INDEX,
    KEEP_TOLD_INDEX,
    Names,
    indexes_for,
    make_indexes,
    open_client,
)

DEADLINE_SECONDS = 20.0
DAY_SECONDS = 86_400


def arguments(port: int, folder: Path, durability: Durability) -> list[str]:
    """Of a mongod that looks every second for what to delete, instead of every minute."""
    plain = MONGODB.arguments(port, folder, durability)
    return [*plain, "--setParameter", "ttlMonitorSleepSecs=1"]


@pytest.fixture
def quick() -> Iterator[str]:
    with running(replace(MONGODB, arguments=arguments)) as server:
        if not server.ours:
            pytest.skip("a mongod that was running before looks once a minute")
        yield server.url


def looked_twice(client: MongoClient[Any]) -> None:
    """Wait until MongoDB has looked for what to delete, all of it, since now."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    passes = looks(client)
    while looks(client) < passes + 2:
        assert time.monotonic() < deadline, "MongoDB does not look for what has ended"
        time.sleep(0.05)


def looks(client: MongoClient[Any]) -> int:
    return int(client.admin.command("serverStatus")["metrics"]["ttl"]["passes"])


def parcel(name: str, changed: dt.datetime, *, active: bool) -> dict[str, Any]:
    made = stored() if active else stored(delivered(FIRST))
    assert made["active"] is active
    return made | {"_id": name, "updated_at": changed}


async def test_parcels_that_ended_go_after_the_days_and_active_ones_stay(quick: str) -> None:
    now = dt.datetime.now(dt.UTC)
    client: MongoClient[Any] = MongoClient(quick)
    bucket = client["bucket"]
    bucket["tracking"].insert_many(
        [
            parcel("ended long ago", now - days(31), active=False),
            parcel("ended lately", now - days(29), active=False),
            parcel("on its way for long", now - days(400), active=True),
            parcel("untold", now - days(400), active=False) | {"untold": [{"at": now}]},
        ]
    )
    bucket["tracking_past"].insert_many(
        [
            parcel("never arrived", now - days(31), active=True),
            parcel("used again lately", now - days(29), active=False),
        ]
    )

    await prepared(quick, 30)
    looked_twice(client)
    assert bucket["tracking"].distinct("_id") == ["ended lately", "on its way for long", "untold"]
    assert bucket["tracking_past"].distinct("_id") == ["used again lately"]

    await prepared(quick, 7)
    looked_twice(client)
    assert bucket["tracking"].distinct("_id") == ["on its way for long", "untold"]
    assert bucket["tracking_past"].distinct("_id") == []
    bucket["tracking"].update_one({"_id": "untold"}, {"$unset": {"untold": ""}})
    looked_twice(client)
    assert bucket["tracking"].distinct("_id") == ["on its way for long"]

    await prepared(quick, 0)
    bucket["tracking"].insert_one(parcel("ended long ago", now - days(31), active=False))
    looked_twice(client)
    assert bucket["tracking"].count_documents({}) == 2
    client.close()


async def test_a_start_that_changes_nothing_changes_no_index(
    mongo_uri: str, database: str, store: Store
) -> None:
    await prepared(mongo_uri, 30, database)
    first = [each.index_information() for each in (store.tracking, store.past)]
    await prepared(mongo_uri, 30, database)

    assert [each.index_information() for each in (store.tracking, store.past)] == first
    kept = [first[0][KEEP_TOLD_INDEX], first[1][KEEP_DAYS_INDEX]]
    assert [each["expireAfterSeconds"] for each in kept] == [30 * DAY_SECONDS] * 2


async def test_indexes_of_before_go(store: Store) -> None:
    for members in (["next_check_at"], ["active", "slug", "next_check_at"]):
        store.tracking.create_index(members, partialFilterExpression={"active": True})
    store.tracking.create_index(
        ["updated_at"],
        name=KEEP_DAYS_INDEX,
        partialFilterExpression={"active": False},
        expireAfterSeconds=DAY_SECONDS,
    )

    await store.prepare()

    left = store.tracking.index_information().keys()
    before = {"next_check_at_1", "active_1_slug_1_next_check_at_1", KEEP_DAYS_INDEX}
    assert not left & before


class Slow(CommandListener):
    """Freezes a mongod for a second, once, when it is asked to make indexes."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.frozen = False

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "createIndexes" and not self.frozen:
            self.frozen = True
            self.server.pause()
            threading.Timer(1.0, self.server.resume).start()

    def succeeded(self, event: object) -> None: ...
    def failed(self, event: object) -> None: ...


def make_of_tracking(collection: Collection[dict[str, Any]]) -> None:
    make_indexes(collection, indexes_for(Names("", ""))["tracking"])


@pytest.mark.parametrize("make", [make_of_tracking, shipments.make_indexes])
def test_indexes_are_made_however_long_that_takes(
    make: Callable[[Collection[dict[str, Any]]], None], stack: Stack, database: str
) -> None:
    """Over millions of documents it takes minutes, any other operation a few seconds at most."""
    slow = Slow(stack.mongodb)
    with open_client(stack.mongodb.url, timeoutMS=400, event_listeners=[slow]) as client:
        make(client[database]["slow"])

        assert slow.frozen
        assert len(client[database]["slow"].index_information()) > 3


async def test_preparing_twice_changes_nothing(store: Store) -> None:
    def indexes() -> dict[str, Any]:
        collections = (store.tracking, store.past, store.dead)
        return {each.name: each.index_information() for each in collections}

    await store.prepare()
    before = indexes()
    await store.prepare()

    assert indexes() == before
    assert "active_1_slug_1_check_pace_1_next_check_at_1__id_1" in before["tracking"]


OPENED = """
from pymongo import periodic_executor
from service.worker.results.database import open_client
periodic_executor.PeriodicExecutor.join = lambda *_: print("waits for a thread")
client = open_client("mongodb://127.0.0.1:1/")
"""


def test_no_process_waits_at_its_end_for_the_naps_of_the_drivers_threads() -> None:
    ended = subprocess.run([sys.executable, "-c", OPENED], capture_output=True, check=True)

    assert ended.stdout == b""
