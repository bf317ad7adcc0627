"""Jobs that the worker puts, on whichever server takes them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import greenstalk
import pytest
from tubes_hands import SOON, Producer

from devstack.servers import Server, free_port
from service.tubes.connection import Patience, Placing
from service.tubes.envelope import DRAINS_TUBE, decode_request
from service.tubes.putter import RECHECK, Putter
from tracking.errors import TubesDown
from tracking.request import Number, Origin, Slug, TrackingRequest

USPS = Slug("usps")


class Putters:
    """Makes putters with little patience and closes them with the test."""

    def __init__(self) -> None:
        self.made: list[Putter] = []

    def __call__(self, *servers: str) -> Putter:
        self.made.append(Putter(servers, Patience(connect=1.0, reply=0.5)))
        return self.made[-1]


@pytest.fixture
def putter_for() -> Iterator[Putters]:
    putters = Putters()
    yield putters
    for putter in putters.made:
        putter.close()


def jobs_in(tube: str, server: Server) -> list[bytes]:
    with greenstalk.Client((server.host, server.port), encoding=None, watch=tube) as client:
        bodies = []
        while True:
            try:
                job = client.reserve(timeout=0)
            except greenstalk.TimedOutError:
                return bodies
            bodies.append(job.body)
            client.delete(job)


async def test_a_drain_job_is_the_one_of_the_contract(
    putter_for: Putters, beanstalkd: Server
) -> None:
    await putter_for(beanstalkd.url).put_drain(USPS)

    assert jobs_in(DRAINS_TUBE, beanstalkd) == [b'{"type":"wait_list","payload":{"slug":"usps"}}']


async def test_a_request_is_put_behind_those_of_producers(
    putter_for: Putters, beanstalkd: Server, producer: Producer
) -> None:
    request = TrackingRequest(USPS, Number("94001"), "94001", id="r1", origin=Origin.AUTOMATIC)

    await putter_for(beanstalkd.url).put_request(request)
    producer.put(b"first")

    first, second = producer.reserve(timeout=0), producer.reserve(timeout=0)
    facts: Any = producer.stats_job(second)
    assert first.body == b"first"
    assert decode_request(second.body, {"usps": (USPS, "")}.__getitem__) == request
    assert facts["pri"] == RECHECK.priority


async def test_servers_take_turns(putter_for: Putters, beanstalkd: Server, other: Server) -> None:
    putter = putter_for(beanstalkd.url, other.url)

    for _ in range(6):
        await putter.put_drain(USPS)

    assert len(jobs_in(DRAINS_TUBE, beanstalkd)) == len(jobs_in(DRAINS_TUBE, other)) == 3


async def test_a_server_that_is_away_is_passed_over(
    putter_for: Putters, beanstalkd: Server, other: Server
) -> None:
    putter = putter_for(beanstalkd.url, other.url)
    await putter.put_drain(USPS)
    beanstalkd.kill()

    await asyncio.gather(*(putter.put_drain(USPS) for _ in range(5)))

    beanstalkd.start()
    both = jobs_in(DRAINS_TUBE, other) + jobs_in(DRAINS_TUBE, beanstalkd)
    assert len(both) == 6


async def test_no_server_at_all_is_an_error_that_names_them(putter_for: Putters) -> None:
    servers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    putter = putter_for(*servers)

    for _ in range(2):
        with pytest.raises(TubesDown) as caught:
            await putter.put_drain(USPS)

        assert all(server in str(caught.value) for server in servers)


async def test_a_server_that_was_restarted_takes_the_very_next_job(
    putter_for: Putters, beanstalkd: Server
) -> None:
    putter = putter_for(beanstalkd.url)
    await putter.put_drain(USPS)

    beanstalkd.kill()
    beanstalkd.start()
    await putter.put_drain(USPS)

    assert len(jobs_in(DRAINS_TUBE, beanstalkd)) == 2


async def test_a_server_in_drain_mode_is_passed_over(
    putter_for: Putters, beanstalkd: Server, other: Server
) -> None:
    assert beanstalkd.pid is not None
    os.kill(beanstalkd.pid, signal.SIGUSR1)
    putter = putter_for(beanstalkd.url, other.url)

    for _ in range(3):
        await putter.put_drain(USPS)

    assert len(jobs_in(DRAINS_TUBE, other)) == 3


async def test_a_job_that_no_server_takes_is_an_error(
    putter_for: Putters, beanstalkd: Server
) -> None:
    with pytest.raises(TubesDown, match="takes no job of this size"):
        await putter_for(beanstalkd.url).put(DRAINS_TUBE, b"x" * 70_000, Placing())


async def test_a_silent_server_delays_but_does_not_block(
    putter_for: Putters, beanstalkd: Server
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        putter = putter_for(f"127.0.0.1:{silent.getsockname()[1]}", beanstalkd.url)
        async with asyncio.timeout(SOON):
            for _ in range(4):
                await putter.put_drain(USPS)

    assert len(jobs_in(DRAINS_TUBE, beanstalkd)) == 4
