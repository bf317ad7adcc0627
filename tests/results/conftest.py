"""A store on the session's mongod, in a database of the test's own.

============ =====================================================================
fixture      is
============ =====================================================================
`store`      a `Store` whose collections are empty
`hasty`      the same, but it waits a second where the real one waits five
`notices`    what the store said of MongoDB: an error when it went, None when back
`trackings`  the port `Results` on `store`
`members`    a MongoDB of three, whole again for each test (`devstack.members.Members`)
`on_members` a `hasty` store on it
============ =====================================================================
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from store_parcels import recheck_of

from devstack.members import Members
from devstack.members import members as running_members
from service.worker.results import connection
from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.results.trackings import Trackings


@pytest.fixture
def notices() -> list[Exception | None]:
    return []


@pytest.fixture
async def store(
    mongo_uri: str, database: str, notices: list[Exception | None]
) -> AsyncIterator[Store]:
    opened = Store(Names(mongo_uri, database), notices.append)
    yield opened
    await opened.close()


@pytest.fixture
def hasty(haste: object, store: Store) -> Store:
    assert haste is None
    return store


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OPERATION_MS", 1000)
    monkeypatch.setattr(connection, "SELECTION_MS", 500)
    monkeypatch.setattr(connection, "HEARTBEAT_MS", 1_000)
    monkeypatch.setattr(connection, "NAP_SECONDS", 0.5)
    # A step that meets a dead server looks for another one until then, if it began just before.
    monkeypatch.setattr(connection, "CONFIRM_SECONDS", 3.0)


@pytest.fixture(scope="session")
def three_servers() -> Iterator[Members]:
    with running_members() as started:
        yield started


@pytest.fixture
def members(three_servers: Members) -> Members:
    three_servers.mend()
    return three_servers


@pytest.fixture
async def on_members(
    members: Members, notices: list[Exception | None], haste: object
) -> AsyncIterator[Store]:
    assert haste is None
    opened = Store(Names(members.url, f"test_{uuid.uuid4().hex[:12]}"), notices.append)
    await opened.prepare()
    yield opened
    members.mend()
    await opened.close()


@pytest.fixture
async def trackings(store: Store) -> Trackings:
    return Trackings(store, recheck_of)


@pytest.fixture
def database(indexed: str) -> str:
    return indexed
