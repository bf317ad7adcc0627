"""Jobs put on the servers that take them, and durable ones only where the binlog holds them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import greenstalk
import pytest
from tubes_hands import SOON, Producer

from devstack.failing import end_binlog, failing_beanstalkd
from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import Server, free_port, running
from service.worker.tubes import put_servers
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.envelope import DRAINS_TUBE, decode_request
from service.worker.tubes.put_servers import (
    RECHECK,
    WITH_Z,
    NotPut,
    PutOptions,
    PutServer,
    PutServers,
    Putter,
)
from tracking.errors import TubesDown
from tracking.request import Number, Origin, Slug, TrackingRequest

USPS = Slug("usps")


Putters = Callable[..., Putter]


@pytest.fixture
async def putter_for() -> AsyncIterator[Putters]:
    """Makes putters with little patience and closes them with the test."""
    timeouts = Timeouts(connect=1.0, reply=0.5)
    with ExitStack() as stack:
        yield lambda *servers: stack.enter_context(closing(Putter(servers, timeouts)))


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


def ready_in(tube: str, server: Server) -> int:
    with greenstalk.Client((server.host, server.port)) as client:
        facts: Any = client.stats_tube(tube) if tube in client.tubes() else {}
        return int(facts.get("current-jobs-ready", 0))


def with_small_jobs(port: int, folder: Path, durability: Durability) -> list[str]:
    """Of a beanstalkd that takes 50 bytes at most."""
    return [*BEANSTALKD.arguments(port, folder, durability), "-z", "50"]


async def test_a_drain_job_is_the_one_of_the_contract(
    putter_for: Putters, beanstalkd: Server
) -> None:
    await putter_for(beanstalkd.url).put_drain(USPS)

    assert jobs_in(DRAINS_TUBE, beanstalkd) == [b'{"type":"wait_list","payload":{"slug":"usps"}}']


async def test_a_request_is_put_behind_those_of_producers(
    putter_for: Putters, beanstalkd: Server, producer: Producer
) -> None:
    request = TrackingRequest(USPS, Number("94001"), "94001", id="r1", origin=Origin.AUTOMATIC)

    await putter_for(beanstalkd.url).put_rechecks([request])
    producer.put(b"first")

    first, second = producer.reserve(timeout=0), producer.reserve(timeout=0)
    facts: Any = producer.stats_job(second)
    assert first.body == b"first"
    assert decode_request(second.body, {"usps": (USPS, "")}.__getitem__) == request
    assert facts["pri"] == RECHECK.priority


def some(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_hundreds_of_jobs_are_put_in_few_round_trips_and_in_order(
    putter_for: Putters, beanstalkd: Server
) -> None:
    bodies = some(300)

    await putter_for(beanstalkd.url).put_all(DRAINS_TUBE, bodies, PutOptions())

    assert jobs_in(DRAINS_TUBE, beanstalkd) == bodies


async def test_no_jobs_at_all_are_put_at_no_server(putter_for: Putters) -> None:
    await putter_for(f"127.0.0.1:{free_port()}").put_all(DRAINS_TUBE, [], PutOptions())


async def test_what_one_server_refuses_of_many_is_put_on_another(
    putter_for: Putters, beanstalkd: Server
) -> None:
    with running(replace(BEANSTALKD, arguments=with_small_jobs)) as small:
        putter = putter_for(small.url, beanstalkd.url)
        for _ in range(2):  # both are the first once
            await putter.put_all(DRAINS_TUBE, [b"x", b"x" * 100, b"x", b"x" * 100], PutOptions())

        taken = jobs_in(DRAINS_TUBE, small)
    assert set(taken) == {b"x"}
    assert sorted(taken + jobs_in(DRAINS_TUBE, beanstalkd)) == [b"x"] * 4 + [b"x" * 100] * 4


async def test_many_of_which_no_server_takes_one_are_an_error(
    putter_for: Putters, beanstalkd: Server
) -> None:
    bodies = [b"x", b"x" * 1_400_000, b"x"]

    with pytest.raises(TubesDown, match="no job of this size"):
        await putter_for(beanstalkd.url).put_all(DRAINS_TUBE, bodies, PutOptions())

    assert jobs_in(DRAINS_TUBE, beanstalkd) == [b"x", b"x"]


async def test_one_that_is_too_large_keeps_no_other_from_its_server(beanstalkd: Server) -> None:
    servers = PutServers([beanstalkd.url], Timeouts())
    with closing(servers):
        with pytest.raises(NotPut, match="1400000 bytes"):
            await servers.put(DRAINS_TUBE, [b"x" * 1_400_000], PutOptions())
        await servers.put(DRAINS_TUBE, [b"a"], PutOptions())

        assert servers.job_mosts() == {beanstalkd.url: WITH_Z}
        assert await servers.jobs(DRAINS_TUBE) == 1
        assert await servers.jobs("nothing") == 0
    assert jobs_in(DRAINS_TUBE, beanstalkd) == [b"a"]


async def test_of_many_that_are_not_all_put_it_is_known_which_were(beanstalkd: Server) -> None:
    servers = PutServers([beanstalkd.url], Timeouts())
    with closing(servers), pytest.raises(NotPut) as failed:
        await servers.put(DRAINS_TUBE, [b"a", b"x" * 1_400_000, b"b"], PutOptions())

    assert [place and place.server for place in failed.value.placed] == [
        beanstalkd.url,
        None,
        beanstalkd.url,
    ]
    assert jobs_in(DRAINS_TUBE, beanstalkd) == [b"a", b"b"]


async def test_a_server_that_dies_in_the_middle_of_many_leaves_none_behind(
    putter_for: Putters, beanstalkd: Server, other: Server
) -> None:
    putter = putter_for(beanstalkd.url, other.url)
    bodies = some(600)
    putting = asyncio.create_task(putter.put_all(DRAINS_TUBE, bodies, PutOptions()))
    while not ready_in(DRAINS_TUBE, other):
        assert not putting.done()
        await asyncio.sleep(0)

    beanstalkd.kill()
    await putting

    beanstalkd.start()
    both = jobs_in(DRAINS_TUBE, other) + jobs_in(DRAINS_TUBE, beanstalkd)
    assert set(both) == set(bodies)


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
        await putter_for(beanstalkd.url).put_all(DRAINS_TUBE, [b"x" * 1_400_000], PutOptions())


async def test_a_silent_server_delays_but_does_not_block(
    putter_for: Putters, beanstalkd: Server
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        putter = putter_for(f"127.0.0.1:{silent.getsockname()[1]}", beanstalkd.url)
        async with asyncio.timeout(SOON):
            for _ in range(4):
                await putter.put_drain(USPS)

    assert len(jobs_in(DRAINS_TUBE, beanstalkd)) == 4


TUBE = "t"
AGAIN = 0.05


@pytest.fixture
def limited() -> Iterator[Server]:
    with running(failing_beanstalkd()) as server:
        yield server


def durable(*servers: Server) -> closing[PutServers]:
    patience = Timeouts(connect=1.0, reply=1.0)
    return closing(PutServers([each.url for each in servers], patience, durable=True))


async def put(servers: PutServers, count: int = 3) -> list[str]:
    return [each.server for each in await servers.put(TUBE, [b"x"] * count, PutOptions())]


def talking_to(server: Server) -> Producer:
    return greenstalk.Client((server.host, server.port), encoding=None)


def end_by_a_failed_write(limited: Server, somebody: Producer) -> None:
    end_binlog(limited)
    with pytest.raises(greenstalk.BuriedError):
        somebody.put(b"the write that fails")


async def test_what_the_binlog_holds_is_put(limited: Server) -> None:
    with durable(limited) as servers:
        assert await put(servers) == await put(servers) == [limited.url] * 3


async def test_a_server_without_a_binlog_takes_none(other: Server) -> None:
    with running(BEANSTALKD, Durability.NONE) as forgetful:
        with durable(forgetful) as alone, pytest.raises(NotPut, match="no binlog"):
            await put(alone)
        with durable(forgetful, other) as both:
            assert await put(both) == await put(both) == [other.url] * 3


async def test_an_acknowledged_job_is_not_put_once_the_binlog_has_ended(limited: Server) -> None:
    with durable(limited) as servers, talking_to(limited) as somebody:
        await put(servers)
        end_by_a_failed_write(limited, somebody)
        somebody.put(b"taken, and kept in memory only")

        with pytest.raises(NotPut, match="stopped writing its binlog"):
            await put(servers)
        with durable(limited) as others, pytest.raises(NotPut, match="stopped writing its binlog"):
            await put(others)


async def test_a_server_that_lost_its_binlog_is_used_again_only_after_its_restart(
    limited: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_servers, "AVOIDED", AGAIN)
    server = PutServer(limited.url, Timeouts(connect=1.0, reply=1.0), durable=True)
    with closing(server), talking_to(limited) as somebody:
        await server.put(TUBE, [b"x"], PutOptions())
        end_by_a_failed_write(limited, somebody)
        assert await server.put(TUBE, [b"x"], PutOptions()) == [None]

        await asyncio.sleep(2 * AGAIN)
        assert "stopped writing its binlog" in await server.refusal()
        limited.kill()
        limited.start()

        await asyncio.sleep(2 * AGAIN)
        assert await server.put(TUBE, [b"x"], PutOptions()) != [None]
