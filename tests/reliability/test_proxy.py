"""The proxy spoils connections as it says; else no fault run would prove anything."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from chaos.proxy import BLACK_HOLE, DOWN, DROP_REPLIES, FINE, Address, Condition, Proxy

from devstack.servers import free_port

HOST = "127.0.0.1"
SOON = 5.0

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Stream]]


class Echo:
    """A server that answers every line with itself, and remembers the pieces that arrived."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.pieces: list[int] = []
        self.heard = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest = b""
        try:
            while piece := await reader.read(65_536):
                self.pieces.append(len(piece))
                *whole, rest = (rest + piece).split(b"\n")
                self.lines += whole
                self.heard.set()
                writer.writelines(line + b"\n" for line in whole)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def address(echo: Echo) -> AsyncIterator[Address]:
    port = free_port()
    server = await asyncio.start_server(echo.serve, HOST, port)
    yield HOST, port
    server.close()


@pytest.fixture
async def proxy(address: Address) -> AsyncIterator[Proxy]:
    made = Proxy(free_port(), address)
    await made.start()
    yield made
    await made.stop()
    await asyncio.sleep(0.05)  # the connections' own tasks end on the next turns of the loop


@pytest.fixture
async def connect(proxy: Proxy) -> AsyncIterator[Connect]:
    writers = []

    async def connected() -> Stream:
        reader, writer = await asyncio.open_connection(HOST, proxy.port)
        writers.append(writer)
        return reader, writer

    yield connected
    for writer in writers:
        writer.transport.abort()


async def ask(stream: Stream, line: bytes) -> bytes:
    reader, writer = stream
    writer.write(line)
    async with asyncio.timeout(SOON):
        return await reader.readline()


async def test_a_connection_of_which_the_server_has_not_answered_is_reset_at_the_end(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", never)
    with socket.create_connection((HOST, proxy.port), SOON) as client:
        async with asyncio.timeout(SOON):
            await asked.wait()
        tasks = {each.get_coro().__qualname__: each for each in asyncio.all_tasks()}
        serving = tasks["Proxy._serve"]
        serving.cancel()
        await asyncio.wait([serving])
        await asyncio.sleep(0.05)  # an abort takes effect on the next turn of the loop

        with pytest.raises(ConnectionResetError):
            client.recv(1)


async def test_a_fine_link_passes_everything_on(connect: Connect) -> None:
    stream = await connect()
    large = b"x" * 300_000 + b"\n"

    assert await ask(stream, b"hello\n") == b"hello\n"
    stream[1].write(large)
    assert await stream[0].readexactly(len(large)) == large


async def test_a_link_that_is_down_resets_and_refuses_until_it_is_fine(
    proxy: Proxy, connect: Connect
) -> None:
    stream = await connect()
    await ask(stream, b"hello\n")

    await proxy.become(DOWN)

    with pytest.raises(ConnectionResetError):
        await ask(stream, b"again\n")
    with pytest.raises(ConnectionRefusedError):
        await connect()
    await proxy.become(FINE)
    assert await ask(await connect(), b"back\n") == b"back\n"


async def test_a_slow_link_holds_both_directions_back(proxy: Proxy, connect: Connect) -> None:
    stream = await connect()
    await proxy.become(Condition(latency=0.1))

    before = time.monotonic()
    await ask(stream, b"hello\n")

    assert time.monotonic() - before >= 0.2


async def test_what_a_black_hole_swallowed_arrives_when_it_is_over(
    proxy: Proxy, connect: Connect, echo: Echo
) -> None:
    stream = await connect()
    await ask(stream, b"before\n")
    await proxy.become(BLACK_HOLE)

    stream[1].write(b"during\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stream[0].readline(), 0.2)
    assert echo.lines == [b"before"]

    await proxy.become(FINE)
    assert await stream[0].readline() == b"during\n"


async def test_a_client_that_gave_up_in_a_black_hole_is_heard_all_the_same(
    proxy: Proxy, connect: Connect, echo: Echo
) -> None:
    stream = await connect()
    await proxy.become(BLACK_HOLE)
    stream[1].write(b"late\n")
    await stream[1].drain()
    stream[1].close()

    await proxy.become(FINE)

    await asyncio.wait_for(echo.heard.wait(), SOON)
    assert echo.lines == [b"late"]


async def test_a_reply_is_dropped_after_its_request_was_done(
    proxy: Proxy, connect: Connect, echo: Echo
) -> None:
    stream = await connect()
    await ask(stream, b"before\n")
    await proxy.become(DROP_REPLIES)

    with pytest.raises(ConnectionResetError):
        await ask(stream, b"done\n")

    assert echo.lines == [b"before", b"done"]
    assert proxy.replies_dropped == 1


async def test_a_reset_cuts_open_connections_and_takes_new_ones(
    proxy: Proxy, connect: Connect
) -> None:
    stream = await connect()
    await ask(stream, b"hello\n")

    proxy.reset()

    with pytest.raises(ConnectionResetError):
        await ask(stream, b"again\n")
    assert await ask(await connect(), b"new\n") == b"new\n"


async def test_a_narrow_link_needs_time_for_every_byte(proxy: Proxy, connect: Connect) -> None:
    stream = await connect()
    await proxy.become(Condition(bytes_per_second=10_000))

    before = time.monotonic()
    await ask(stream, b"x" * 1_999 + b"\n")

    assert time.monotonic() - before >= 0.4


async def test_a_sliced_link_delivers_in_small_pieces(
    proxy: Proxy, connect: Connect, echo: Echo
) -> None:
    stream = await connect()
    await proxy.become(Condition(piece_bytes=7))

    await ask(stream, b"x" * 699 + b"\n")

    assert len(echo.pieces) > 10


async def test_a_link_to_a_server_that_is_away_looks_like_one_that_ends(proxy: Proxy) -> None:
    astray = Proxy(free_port(), (HOST, free_port()))
    await astray.start()

    stream = await asyncio.open_connection(HOST, astray.port)
    with pytest.raises(ConnectionResetError):
        await ask(stream, b"hello\n")

    stream[1].transport.abort()
    await astray.stop()
    assert proxy.replies_dropped == 0


async def test_the_end_of_one_side_reaches_the_other(connect: Connect) -> None:
    reader, writer = await connect()
    await ask((reader, writer), b"hello\n")

    writer.write_eof()

    async with asyncio.timeout(SOON):
        assert await reader.read() == b""


async def test_the_proxy_knows_when_answers_passed_and_when_a_server_let_go(
    proxy: Proxy, connect: Connect
) -> None:
    began = time.monotonic()
    stream = await connect()
    await ask(stream, b"hello\n")
    stream[1].close()

    async with asyncio.timeout(SOON):
        while not proxy.releases:  # noqa: ASYNC110 - the proxy tells nobody
            await asyncio.sleep(0.01)

    (heard,), (release,) = proxy.heard, proxy.releases
    assert began <= heard <= release.left <= release.ended
