"""The example that follows changes prints each one, also those that are stored late."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.collection import Collection

from devstack.command import run_to_end
from service.worker.results.database import Names, indexes_for, make_indexes

READER = Path(__file__).parents[2] / "examples" / "read_changes.py"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)

Changes = Callable[[], list[str]]


@pytest.fixture
def parcels(mongo_uri: str, database: str) -> Any:
    with pymongo.MongoClient(mongo_uri, tz_aware=True) as client:
        make_indexes(client[database]["tracking"], indexes_for(Names(""))["tracking"])
        yield client[database]["tracking"]


@pytest.fixture
def changes(mongo_uri: str, database: str, tmp_path: Path) -> Changes:
    def read() -> list[str]:
        done = run_to_end(
            [sys.executable, READER, tmp_path / "changes.json", "--once"],
            {**os.environ, "MONGODB_URI": mongo_uri, "MONGODB_DATABASE": database},
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["_id"] for line in done.stdout.splitlines()]

    return read


def _change(parcels: Collection[Any], name: str, at: datetime) -> None:
    parcels.update_one({"_id": name}, {"$set": {"updated_at": at}}, upsert=True)


def test_each_change_is_printed_once_oldest_first(
    parcels: Collection[Any], changes: Changes
) -> None:
    _change(parcels, "usps:B", NOON + timedelta(seconds=1))
    _change(parcels, "usps:A", NOON)

    assert changes() == ["usps:A", "usps:B"]
    assert changes() == []

    _change(parcels, "usps:A", NOON + timedelta(seconds=2))
    assert changes() == ["usps:A"]


def test_what_other_accounts_asked_for_is_not_printed(
    parcels: Collection[Any], changes: Changes
) -> None:
    parcels.insert_one({"_id": "usps:A@shop", "account": "shop", "updated_at": NOON})
    _change(parcels, "usps:A", NOON)

    assert changes() == ["usps:A"]


def test_an_answer_that_was_stored_late_is_printed_too(
    parcels: Collection[Any], changes: Changes
) -> None:
    _change(parcels, "usps:A", NOON)
    assert changes() == ["usps:A"]

    _change(parcels, "usps:B", NOON - timedelta(seconds=60))

    assert changes() == ["usps:B"]


def test_more_parcels_of_one_instant_than_a_page_holds_are_all_printed(
    parcels: Collection[Any], changes: Changes
) -> None:
    names = [f"usps:{number:05}" for number in range(2_500)]
    parcels.insert_many([{"_id": name, "updated_at": NOON} for name in names])

    assert changes() == names
    assert changes() == []


def test_the_worker_keeps_the_index_that_the_reader_pages_by(
    parcels: Collection[Any],
) -> None:
    _change(parcels, "usps:A", NOON)
    later = [{"updated_at": {"$gt": NOON}}, {"updated_at": NOON, "_id": {"$gt": "usps"}}]

    found = parcels.find({"updated_at": {"$gte": NOON}, "$or": later})
    plan = found.sort([("updated_at", 1), ("_id", 1)]).limit(10).explain()["queryPlanner"]

    assert '"IXSCAN"' in json.dumps(plan["winningPlan"], default=str)
    assert '"SORT"' not in json.dumps(plan["winningPlan"], default=str)
