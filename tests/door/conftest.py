"""A door that is asked over HTTP, with a server and without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymongo
import pytest
from aftership_ground import Bucket
from door_ground import NOWHERE, Client, FixedKeys, serving
from limits_bench import FAST, Worker
from operations_ground import Database, serving_all, working

from devstack.servers import Server


@pytest.fixture
async def client(disk: Path, beanstalkd: Server) -> AsyncIterator[Client]:
    async with serving(disk / "spool.sqlite", beanstalkd) as made:
        yield made


@pytest.fixture
def spool(disk: Path) -> Path:
    return disk / "spool.sqlite"


@pytest.fixture
def keys() -> FixedKeys:
    return FixedKeys()


@pytest.fixture
async def alone(disk: Path) -> AsyncIterator[Client]:
    """The door of a machine whose servers are away."""
    async with serving(disk / "spool.sqlite", NOWHERE) as made:
        yield made


@pytest.fixture
def settings(redis_url: str, mongo_uri: str, database: str) -> dict[str, str]:
    """Where an `api` finds its servers."""
    return {
        "TRACKER_REDIS__URL": redis_url,
        "TRACKER_MONGODB__URI": mongo_uri,
        "TRACKER_MONGODB__DATABASE": database,
    }


@pytest.fixture
async def api(disk: Path, settings: dict[str, str]) -> AsyncIterator[Client]:
    """All routes, while no beanstalkd can be reached."""
    async with serving_all(disk / "spool.sqlite", settings) as made:
        yield made


@pytest.fixture
async def whole(disk: Path, settings: dict[str, str], beanstalkd: Server) -> AsyncIterator[Client]:
    """All routes, with a beanstalkd."""
    async with serving_all(disk / "spool.sqlite", settings, beanstalkd) as made:
        yield made


@pytest.fixture
async def worker(redis_url: str) -> AsyncIterator[Worker]:
    """With one call at a time."""
    async with working(redis_url, replace(FAST, concurrent=1)) as made:
        yield made


@pytest.fixture
def collections(mongo_uri: str, database: str) -> Iterator[Database]:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        yield client[database]


@pytest.fixture
def bucket(mongo_uri: str, database: str) -> Iterator[Bucket]:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri, tz_aware=True) as client:
        yield client[database]
