"""A Redis that became a replica, behind an address that leads to another one from then on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import redis as blocking
from limits_bench import Hire, until

from devstack.kinds import HOST, REDIS
from devstack.servers import Server, running
from limits.server import RedisAddress
from tracking.errors import LimitsDown

BACK_SECONDS = 5.0


class Address:
    """An address that stays while what it leads to changes: a virtual IP, or a name."""

    def __init__(self, leads_to: Server) -> None:
        self.leads_to = leads_to
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there = await asyncio.open_connection(self.leads_to.host, self.leads_to.port)
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


@asynccontextmanager
async def address_of(server: Server) -> AsyncIterator[tuple[Address, str]]:
    address = Address(server)
    async with await asyncio.start_server(address.serve, HOST, 0) as listener:
        yield address, f"redis://{HOST}:{listener.sockets[0].getsockname()[1]}/0"


async def test_a_demoted_redis_is_left_at_once_for_the_one_that_its_address_leads_to(
    hire: Hire, measured: dict[str, list[str]]
) -> None:
    async with AsyncExitStack() as closing:
        old, new = closing.enter_context(running(REDIS)), closing.enter_context(running(REDIS))
        address, url = await closing.enter_async_context(address_of(old))
        worker = await hire(address=RedisAddress(url))
        await worker.granted("N001")
        made = address.connections

        address.leads_to = new
        with blocking.Redis.from_url(old.url) as admin:
            admin.replicaof(new.host, new.port)
        failed = time.monotonic()
        with pytest.raises(LimitsDown, match="is a replica and takes no writes"):
            await worker.admit("N002")

        async def served() -> bool:
            with suppress(LimitsDown):
                return bool(await worker.admit("N002"))
            return False

        await until(served)
        took = time.monotonic() - failed
        measured["a demoted Redis is left after"] = [f"{took:.2f} s"]
        assert took < BACK_SECONDS
        assert address.connections == made + 1
