"""No byte of a tracking request leaves without its permit, and none is sent twice."""

from __future__ import annotations

import asyncio
import socket
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

import aiohttp
import pytest
from aiohttp import web
from loopback import OK, Courier, FetchFor, RecordingPermit, Wire, request_of

from couriers.http.credentials import CourierSettings, Grant
from couriers.http.fetch import Fetch, TokenCache
from couriers.http.session import Gate
from service.worker.flow.tasks import Deadlines
from tracking.errors import CourierDown, NotStarted
from tracking.request import Slug


async def test_before_send_comes_before_the_first_byte_and_after_send_behind_the_last(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    arrived = asyncio.Event()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        arrived.set()
        writer.write(OK)

    fetch = fetch_for(await wire(serve))
    permit.hold = asyncio.Event()
    asking = asyncio.create_task(fetch.get(["a"]))
    await asyncio.wait_for(permit.at_the_gate.wait(), 5)
    # The gate is shut with the connection in hand: nothing may arrive in the meantime.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(arrived.wait(), 0.2)
    permit.hold.set()
    answer = await asking

    assert answer.status == 200
    assert permit.steps == ["before_send", "after_send"]


async def test_the_trace_goes_on_at_the_courier_but_not_where_tokens_are(
    courier: Courier, http: aiohttp.ClientSession, permit: RecordingPermit
) -> None:
    seen: dict[str, str | None] = {}

    async def serve(request: web.BaseRequest) -> web.Response:
        seen[request.path] = request.headers.get("traceparent")
        return web.json_response({"access_token": "t"})

    url = await courier(serve)
    settings = CourierSettings(slug=Slug("usps"), base_url=url, token_url=f"{url}/token")
    fetch = Fetch(http, settings, permit, TokenCache(), "00-1-2-01")
    await fetch.get(["a"], grant=Grant(f"{url}/token", json={"client_id": "x"}))
    await fetch.get(["b"], headers={"traceparent": "its own"})

    assert seen == {"/token": None, "/a": "00-1-2-01", "/b": "its own"}


@pytest.mark.parametrize(
    ("method", "body"),
    [("get", b""), ("json", b'["' + b"x" * 2000 + b'NN"]'), ("xml", b"<a>" + b"x" * 2000 + b"NN")],
)
async def test_at_the_stamp_the_operating_system_has_the_whole_request(
    method: str, body: bytes, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    received, end = bytearray(), body[-4:] or b"\r\n\r\n"

    def take_what_has_left() -> None:
        # The event loop stands still in here: what it has not written yet cannot arrive.
        connection, _ = listener.accept()
        connection.settimeout(0.5)
        with suppress(TimeoutError):
            while not received.endswith(end):
                received.extend(connection.recv(65536))
        connection.settimeout(None)
        connection.sendall(OK)
        connection.close()

    permit.when_sent = take_what_has_left
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fetch = fetch_for(f"http://127.0.0.1:{listener.getsockname()[1]}")
        match method:
            case "get":
                await fetch.get(["a"])
            case "json":
                await fetch.post(["a"], json=["x" * 2000 + "NN"])
            case _:
                await fetch.post(["a"], xml=body.decode())

    head, _, sent = bytes(received).partition(b"\r\n\r\n")
    assert head.startswith(b"GET" if method == "get" else b"POST")
    assert (b"Content-Type: text/xml; charset=utf-8" in head) == (method == "xml")
    assert sent == body


async def test_a_grant_that_is_too_old_sends_nothing_and_leaves_the_connection_usable(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    connections: list[StreamWriter] = []
    received: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        connections.append(writer)
        while True:
            received.append(await request_of(reader))
            writer.write(OK)

    fetch = fetch_for(await wire(serve))
    permit.stale = True
    with pytest.raises(NotStarted):
        await fetch.get(["a"])
    assert permit.steps == ["before_send"]
    permit.stale = False
    await fetch.get(["b"])

    assert len(received) == 1
    assert received[0].startswith(b"GET /b ")
    assert len(connections) == 1


async def test_every_further_request_asks_for_leave_first(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        while await request_of(reader):
            writer.write(OK)

    fetch = fetch_for(await wire(serve))
    for name in "abc":
        await fetch.get([name])

    step = ["before_send", "after_send"]
    assert permit.steps == [*step, "again", *step, "again", *step]


@pytest.mark.parametrize("method", ["get", "post"])
async def test_a_kept_connection_that_breaks_is_not_asked_twice(
    method: str, wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    requests: list[bytes] = []

    connections: list[StreamWriter] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        connections.append(writer)
        await request_of(reader)
        writer.write(OK)
        requests.append(await request_of(reader))

    fetch = fetch_for(await wire(serve))
    await fetch.get(["first"])
    options: dict[str, object] = {"json": {}} if method == "post" else {}
    with pytest.raises(CourierDown):
        await getattr(fetch, method)(["second"], **options)

    assert len(requests) == 1
    assert len(connections) == 1
    assert permit.steps == ["before_send", "after_send", "again", "before_send", "after_send"]


async def test_aiohttp_itself_would_have_asked_twice(wire: Wire) -> None:
    """Without this, the test above could pass because the library changed its mind."""
    requests: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        requests.append(await request_of(reader))
        writer.write(OK)
        requests.append(await request_of(reader))

    address = await wire(serve)
    async with aiohttp.ClientSession() as plain:
        async with plain.get(address) as response:
            await response.read()
        async with plain.get(address) as response:
            await response.read()

    assert len(requests) == 3


async def test_a_connection_that_closes_while_the_gate_is_shut_is_the_couriers_fault(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await permit.at_the_gate.wait()
        writer.close()
        received.put_nowait(await reader.read())

    fetch = fetch_for(await wire(serve))
    permit.hold = asyncio.Event()
    asking = asyncio.create_task(fetch.get(["a"]))
    assert await asyncio.wait_for(received.get(), 5) == b""
    permit.hold.set()
    with pytest.raises(CourierDown):
        await asking

    assert permit.steps == ["before_send"]


async def test_a_session_without_the_gate_is_refused(
    wire: Wire, permit: RecordingPermit, fetch_for: FetchFor
) -> None:
    received: list[bytes] = []

    async def serve(reader: StreamReader, _writer: StreamWriter) -> None:
        received.append(await request_of(reader))

    settings = fetch_for(await wire(serve)).settings
    async with aiohttp.ClientSession() as plain:
        with pytest.raises(TypeError, match="open_session"):
            await Fetch(plain, settings, permit, TokenCache()).get(["a"])

    assert received == []


async def test_the_deadline_holds_while_the_gate_is_shut(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: StreamReader, _writer: StreamWriter) -> None:
        received.put_nowait(await reader.read())

    fetch = fetch_for(await wire(serve))
    permit.hold = asyncio.Event()
    permit.deadline = asyncio.get_running_loop().time() + 0.2
    with pytest.raises(TimeoutError):
        await Deadlines().hold(permit.deadline, fetch.get(["a"]))

    assert await asyncio.wait_for(received.get(), 5) == b""


async def test_a_deadline_in_the_past_lets_nothing_out(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    received: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            received.append(await request_of(reader))
            writer.write(OK)

    fetch = fetch_for(await wire(serve))
    await fetch.get(["a"])
    permit.deadline = asyncio.get_running_loop().time() - 1
    with pytest.raises(CourierDown):
        await fetch.get(["b"])

    assert permit.steps == ["before_send", "after_send"]
    assert len(received) == 1


class UnsentTransport:
    def __init__(self, unsent: int) -> None:
        self.unsent = unsent

    def get_extra_info(self, _: str) -> None:
        """There is no socket."""

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Line:
    def __init__(self, transport: UnsentTransport | None) -> None:
        self.transport = transport


@pytest.mark.parametrize(("unsent", "stamped"), [(0, True), (1, False)])
def test_a_request_that_has_not_left_is_not_stamped(
    unsent: int, *, stamped: bool, permit: RecordingPermit
) -> None:
    Gate(permit).stamp(Line(UnsentTransport(unsent)), None)  # type: ignore[arg-type]  # as read

    assert permit.steps == (["after_send"] if stamped else [])


async def test_a_gate_opens_once(permit: RecordingPermit) -> None:
    gate = Gate(permit)
    await gate.open(Line(None))  # type: ignore[arg-type]  # not read
    with pytest.raises(CourierDown):
        await gate.open(Line(None))  # type: ignore[arg-type]  # not read

    assert permit.steps == ["before_send"]


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="this kernel does not say")
async def test_an_answer_is_timed_by_when_the_kernel_took_it(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    """A busy event loop reads it late, and that says nothing of the way to the courier."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK)
        time.sleep(0.3)  # noqa: ASYNC251 - nothing else turns in this loop meanwhile

    await fetch_for(await wire(serve)).get(["a"])

    (silent,) = permit.silent
    assert 0.2 < silent < 10
