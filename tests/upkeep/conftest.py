from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import greenstalk
import pytest

from devstack.servers import Server
from service.worker.results.connection import Store
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.put_servers import Putter


@pytest.fixture
async def store(store: Store) -> Store:
    """The same with its indexes."""
    await store.prepare()
    return store


@pytest.fixture
async def putter(beanstalkd: Server) -> AsyncIterator[Putter]:
    made = Putter([beanstalkd.url])
    yield made
    made.close()


@pytest.fixture
def tube(beanstalkd: Server) -> Iterator[greenstalk.Client[bytes]]:
    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, use=REQUESTS_TUBE, watch=REQUESTS_TUBE) as made:
        yield made


@pytest.fixture
def database(indexed: str) -> str:
    return indexed
