"""A store on the session's mongod, in a database of the test's own.

============ =====================================================================
fixture      is
============ =====================================================================
`store`      a `Store` whose collections are empty
`hasty`      the same, but it waits a second where the real one waits five
`notices`    what the store said of MongoDB: an error when it went, None when back
`trackings`  the port `Results` on `store`
============ =====================================================================
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from store_parcels import recheck_of

from service.results import connection
from service.results.connection import Store
from service.results.names import Names
from service.results.trackings import Trackings


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
async def hasty(
    mongo_uri: str,
    database: str,
    notices: list[Exception | None],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Store]:
    monkeypatch.setattr(connection, "OPERATION_MS", 1000)
    monkeypatch.setattr(connection, "SELECTION_MS", 500)
    monkeypatch.setattr(connection, "HEARTBEAT_MS", 500)
    opened = Store(Names(mongo_uri, database), notices.append)
    yield opened
    await opened.close()


@pytest.fixture
async def trackings(store: Store) -> Trackings:
    return Trackings(store, recheck_of)
