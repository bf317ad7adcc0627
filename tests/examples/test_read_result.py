"""The example reader finds what docs/interface.md says is stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pymongo
import pytest
import redis

from devstack.command import run_to_end

READER = Path(__file__).parents[2] / "examples" / "read_result.py"

Read = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def read(mongo_uri: str, database: str, redis_url: str) -> Read:
    addresses = {"MONGODB_URI": mongo_uri, "MONGODB_DATABASE": database, "REDIS_URL": redis_url}

    def run(*arguments: str, **others: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, READER, *arguments]
        return run_to_end(command, {**os.environ, **addresses, **others})

    return run


@pytest.mark.parametrize(
    ("variable", "address", "told"),
    [
        ("REDIS_URL", "redis://127.0.0.1:1/0", "Redis (REDIS_URL names another) did not answer"),
        ("REDIS_URL", "nonsense", "Redis (REDIS_URL names another) did not answer"),
        ("MONGODB_URI", "nonsense", "MongoDB (MONGODB_URI names another) did not answer"),
    ],
)
def test_a_server_that_is_away_is_told_in_a_line(
    read: Read, variable: str, address: str, told: str
) -> None:
    done = read("usps", "9405903699300184125060", "order-1042", **{variable: address})

    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_arguments_that_are_missing_are_named(read: Read) -> None:
    done = read("usps")

    assert (done.returncode, done.stderr) == (1, "usage: read_result.py SLUG NUMBER [ID]\n")


def test_a_result_is_shown_however_its_number_was_typed_behind_the_status_of_its_operation(
    read: Read, mongo_uri: str, database: str, redis_url: str
) -> None:
    document = {
        "_id": "usps:9405903699300184125060",
        "tag": "InTransit",
        "checkpoints": [{"message": "Ankunft in Köln", "country_name": "Germany"}],
        "updated_at": datetime.now(UTC),
    }
    with pymongo.MongoClient(mongo_uri) as client:
        client[database]["tracking"].insert_one(document)
    with redis.Redis.from_url(redis_url) as store:
        store.set("tracking:status:order-1042", json.dumps({"status": "RUNNING"}), ex=60)

    done = read("usps", " 9405 9036-9930 0184125060 ", "order-1042")

    assert done.returncode == 0, done.stderr
    status, _, result = done.stdout.partition("\n")
    assert status == "RUNNING"
    assert json.loads(result)["checkpoints"] == document["checkpoints"]


def test_a_dead_request_is_shown_with_its_reason(read: Read, mongo_uri: str, database: str) -> None:
    with pymongo.MongoClient(mongo_uri) as client:
        client[database]["dead"].insert_one(
            {"slug": "usps", "number": "9405903699300184125060", "reason": "invalid_number"}
        )

    assert json.loads(read("usps", "9405903699300184125060").stdout)["reason"] == "invalid_number"


def test_nothing_stored_is_said_and_is_a_failure(read: Read) -> None:
    done = read("usps", "9405903699300184125060", "order-1042")

    assert done.returncode == 1
    assert "no status" in done.stdout
    assert "nothing is stored about usps:9405903699300184125060 yet" in done.stderr
