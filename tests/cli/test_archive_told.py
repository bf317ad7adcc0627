"""`doctor` says what waits to be archived, and what memory a day of it would need."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from command_line import Run

from service.client.health import Grade, archive_finding
from service.config.schema import Config, Limits, SlugLimits
from tracking.request import Slug


def told(run: Run) -> str:
    (line,) = [line for line in run("doctor").lines if "archive:" in line]
    return line


def test_doctor_says_how_many_operations_wait_and_what_a_day_of_them_needs(
    run: Run, store: redis.Redis
) -> None:
    store.zadd("tracking:to_archive", {"order-1": time.time() * 1000, "order-2": 9e15})

    line = told(run)

    assert line.startswith(
        "ok    archive: 2 operations that ended wait for MongoDB; a day of calls"
    )
    assert "GiB of Redis" in line


def test_doctor_names_what_waits_for_too_long(run: Run, store: redis.Redis) -> None:
    store.zadd("tracking:to_archive", {"order-1": (time.time() - 7_250) * 1000})

    assert told(run).startswith("note  archive: 1 operations")
    assert "The oldest: 7,2" in told(run)


def test_doctor_names_what_mongodb_refuses_and_what_to_do(run: Run, collections: Any) -> None:
    for name in ("a", "b"):
        collections.refused.insert_one(
            {"_id": f"operations:{name}", "collection": "operations", "why": "Document failed"}
        )

    done = run("doctor")

    (at,) = [n for n, line in enumerate(done.lines) if "refuses 2 documents" in line]
    assert done.lines[at].startswith("note  MongoDB: refuses 2 documents of ")
    assert done.lines[at].endswith(".refused. Document failed")
    assert 'runCommand({collMod: "operations", validator: {}})' in done.lines[at + 1]


@pytest.mark.parametrize(
    ("seconds", "grade"), [(0.0, Grade.FINE), (119.0, Grade.FINE), (121.0, Grade.UNSURE)]
)
def test_the_memory_follows_from_the_limits(seconds: float, grade: Grade) -> None:
    config = Config(limits=Limits(per_second=2, slugs={"ups": SlugLimits(per_second=10)}))

    found = archive_finding(config, [Slug("usps"), Slug("ups")], 0, seconds)

    assert found.grade is grade
    # 12 a second, 86,400 seconds, 512 bytes each.
    assert "a day of calls at all limits (12/s) would take 0.5 GiB of Redis" in found.what
