"""Jobs on a beanstalkd of the test's own.

============ ==========================================================================
fixture      is
============ ==========================================================================
`source`     the tube `requests_flow` of that beanstalkd, with little patience
`producer`   a client that puts on that tube and asks the server about itself
`begin`      starts an intake and returns it with the hands that take its jobs
============ ==========================================================================
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import greenstalk
import pytest
from tubes_hands import Begin, Producer

from devstack.servers import Server
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.held import Source

TIMEOUTS = Timeouts(connect=1.0, reply=1.0)


@pytest.fixture
def source(beanstalkd_address: str) -> Source:
    return Source(beanstalkd_address, REQUESTS_TUBE, timeouts=TIMEOUTS, secret=b"secret")


@pytest.fixture
def producer(beanstalkd: Server) -> Iterator[Producer]:
    with greenstalk.Client(
        (beanstalkd.host, beanstalkd.port), encoding=None, use=REQUESTS_TUBE, watch=REQUESTS_TUBE
    ) as client:
        yield client


@pytest.fixture
async def begin(beanstalkd: Server) -> AsyncIterator[Begin]:
    assert beanstalkd.pid  # asked for, so that it is there until all intakes have ended
    starting = Begin()
    yield starting
    for intake in starting.intakes:
        await intake.close()
