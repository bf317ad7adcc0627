"""Puts that count only where the server's binlog holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import greenstalk
import pytest

from devstack.failing import end_binlog, failing_beanstalkd
from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import Server, running
from service.tubes import put_servers
from service.tubes.blocking import Timeouts
from service.tubes.put_servers import NotPut, PutOptions, PutServer, PutServers

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


async def test_what_the_binlog_holds_is_put(limited: Server) -> None:
    with durable(limited) as servers:
        assert await put(servers) == await put(servers) == [limited.url] * 3


async def test_a_server_without_a_binlog_takes_none(other: Server) -> None:
    with running(BEANSTALKD, Durability.NONE) as forgetful:
        with durable(forgetful) as alone, pytest.raises(NotPut, match="no binlog"):
            await put(alone)
        with durable(forgetful, other) as both:
            assert await put(both) == await put(both) == [other.url] * 3


async def test_an_acknowledged_job_is_not_put_once_the_binlog_has_ended(
    limited: Server,
) -> None:
    with durable(limited) as servers, greenstalk.Client((limited.host, limited.port)) as somebody:
        await put(servers)
        end_binlog(limited)
        with pytest.raises(greenstalk.BuriedError):
            somebody.put("the write that fails")
        somebody.put("taken, and kept in memory only")

        with pytest.raises(NotPut, match="stopped writing its binlog"):
            await put(servers)
        with durable(limited) as others, pytest.raises(NotPut, match="stopped writing its binlog"):
            await put(others)


async def test_a_server_that_lost_its_binlog_is_used_again_only_after_its_restart(
    limited: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_servers, "AVOIDED", AGAIN)
    server = PutServer(limited.url, Timeouts(connect=1.0, reply=1.0), durable=True)
    with closing(server), greenstalk.Client((limited.host, limited.port)) as somebody:
        await server.put(TUBE, [b"x"], PutOptions())
        end_binlog(limited)
        with pytest.raises(greenstalk.BuriedError):
            somebody.put("the write that fails")
        assert await server.put(TUBE, [b"x"], PutOptions()) == [None]

        await asyncio.sleep(2 * AGAIN)
        assert "stopped writing its binlog" in await server.refusal()
        limited.kill()
        limited.start()

        await asyncio.sleep(2 * AGAIN)
        assert await server.put(TUBE, [b"x"], PutOptions()) != [None]
