"""A beanstalkd that answers what a test expects to be asked, and a client of the worker to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.held import ReservedJob, ReservingClient, Source

HASTE = Timeouts(connect=1.0, reply=0.3)
STATS = b"---\nid: 0123abcd\n"
GREETING = (
    b"watch t\r\nignore default\r\nstats\r\n",
    b"WATCHING 2\r\nWATCHING 1\r\nOK %d\r\n%b\r\n" % (len(STATS), STATS),
)
NOW = b"reserve-with-timeout 0\r\n"
ONE = (NOW, b"RESERVED 7 2\r\nab\r\n")
THREE = (NOW * 3, b"RESERVED 7 1\r\na\r\nRESERVED 8 1\r\nb\r\nRESERVED 9 1\r\nc\r\n")


class Settled:
    """Hears which jobs are out of the worker's hands."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def __call__(self, jobs: Sequence[ReservedJob]) -> None:
        self.ids += [job.id for job in jobs]


@asynccontextmanager
async def serving(*exchanges: tuple[bytes, bytes]) -> AsyncIterator[str]:
    """A server that answers expected commands with given bytes, then hangs up; gives its address.

    The client hangs up before the end, and all commands must have come by then.
    """
    heard = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for command, reply in exchanges:
                heard.append(await reader.readexactly(len(command)))
                if heard[-1] != command:
                    break
                writer.write(reply)
            writer.write_eof()
            await reader.read()
        finally:
            await hung_up(writer, over)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await over.wait()
        server.close()
    assert heard == [command for command, _ in exchanges]


async def opened(
    address: str, tube: str = "t", timeouts: Timeouts | None = None, settled: Settled | None = None
) -> ReservingClient:
    """A connection whose jobs give no room back before they are settled."""
    source = Source(address, tube, timeouts=timeouts or Timeouts())
    return await ReservingClient.open(source, settled or Settled(), lambda: None)


@asynccontextmanager
async def scripted(
    *exchanges: tuple[bytes, bytes], settled: Settled | None = None
) -> AsyncIterator[ReservingClient]:
    """A connection to a server of these exchanges, made by the client that reserves."""
    async with serving(GREETING, *exchanges) as address:
        client = await opened(address, settled=settled)
        try:
            yield client
        finally:
            client.close()


async def hung_up(writer: asyncio.StreamWriter, over: asyncio.Event) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    over.set()


async def reserved(client: ReservingClient, count: int = 1) -> list[ReservedJob]:
    jobs = [await each for each in [client.reserve() for _ in range(count)]]
    return [job for job in jobs if job]
