"""What a courier, or somebody in its place, may do to us: none of it hangs, grows or leaks."""

from __future__ import annotations

import asyncio
import gzip
import resource
from asyncio import StreamReader, StreamWriter

import pytest
from aiohttp import web
from loopback import OK, Courier, FetchFor, RecordingPermit, Wire, request_of

from couriers.http.fetch import BODY_BYTES
from couriers.json_feed import parse
from service.worker.flow.tasks import Deadlines
from tracking.errors import AuthFailed, CourierDown, InvalidNumber, RequestRefused, UnreadableAnswer

NUMBER = "N0001"


async def test_a_redirect_is_not_followed_and_is_no_answer(
    courier: Courier, fetch_for: FetchFor
) -> None:
    paths: list[str] = []

    async def asked(request: web.BaseRequest) -> web.Response:
        paths.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    fetch = fetch_for(await courier(asked))
    answer = await fetch.get(["here"])
    with pytest.raises(RequestRefused, match="302"):
        fetch.read(answer, parse, NUMBER)

    assert paths == ["/here"]


async def test_a_byte_now_and_then_does_not_hold_a_call_beyond_its_deadline(
    wire: Wire, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    async def drip(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    fetch = fetch_for(await wire(drip))
    begin = asyncio.get_running_loop().time()
    permit.deadline = begin + 0.3
    with pytest.raises(TimeoutError):
        await Deadlines().hold(permit.deadline, fetch.get(["a"]))

    assert asyncio.get_running_loop().time() - begin < 5


async def test_a_body_without_end_is_cut_off(wire: Wire, fetch_for: FetchFor) -> None:
    async def pour(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    fetch = fetch_for(await wire(pour))
    with pytest.raises(UnreadableAnswer, match="larger"):
        await fetch.get(["a"])


async def test_a_gzip_bomb_is_cut_off_without_being_unfolded(
    courier: Courier, fetch_for: FetchFor
) -> None:
    bomb = gzip.compress(bytes(300 * 1024 * 1024), compresslevel=1)

    async def asked(_: web.BaseRequest) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    fetch = fetch_for(await courier(asked))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableAnswer, match="larger"):
        await fetch.get(["a"])
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert grown_kib < 32 * 1024


async def test_a_body_of_just_the_allowed_size_is_read(
    courier: Courier, fetch_for: FetchFor
) -> None:
    async def asked(_: web.BaseRequest) -> web.Response:
        return web.Response(body=bytes(BODY_BYTES))

    answer = await fetch_for(await courier(asked)).get(["a"])

    assert len(answer.body) == BODY_BYTES


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ncut short",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    ],
    ids=["nothing", "no-http", "cut-short", "no-gzip", "long-header", "many-headers"],
)
async def test_an_answer_that_is_no_http_is_the_couriers_fault(
    reply: bytes, wire: Wire, fetch_for: FetchFor
) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(reply)

    fetch = fetch_for(await wire(serve))
    with pytest.raises(CourierDown):
        await fetch.get(["a"])


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:1", "http://nowhere.invalid", "http://\u00ad.example/"],
    ids=["refused", "no-such-name", "no-name-at-all"],
)
async def test_a_courier_that_cannot_be_reached_is_an_error_of_the_closed_set(
    address: str, fetch_for: FetchFor
) -> None:
    with pytest.raises((CourierDown, RequestRefused)):
        await fetch_for(address).get(["a"])


async def test_a_courier_without_tls_behind_an_https_address_is_down(
    wire: Wire, fetch_for: FetchFor
) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1)
        writer.write(OK)

    address = (await wire(serve)).replace("http:", "https:")
    with pytest.raises(CourierDown):
        await fetch_for(address).get(["a"])


@pytest.mark.parametrize(
    "number",
    ["1Z/../../admin", "1Z?expand=1", "1Z#top", "1Z%2e%2e", "1Z%2F..%2F", "1Z&a=b", "1Z;a", "1Z a"],
)
async def test_no_number_reaches_another_path_or_the_query(
    number: str, wire: Wire, fetch_for: FetchFor
) -> None:
    lines: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        lines.append((await request_of(reader)).split(b"\r\n")[0])
        writer.write(OK)

    fetch = fetch_for(await wire(serve))
    try:
        await fetch.get(["track", number, "events"])
    except InvalidNumber:
        assert lines == []
    else:
        method, target, _ = lines[0].split(b" ")
        assert method == b"GET"
        assert target.startswith(b"/track/1Z")
        assert target.endswith(b"/events")
        assert target.count(b"/") == 3
        assert b"?" not in target
        assert b"#" not in target
        assert b"%2e" not in target.lower().replace(b"%252e", b"")


async def test_a_header_cannot_be_smuggled_in_through_a_credential(
    wire: Wire, fetch_for: FetchFor
) -> None:
    received: list[bytes] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        received.append(await request_of(reader))
        writer.write(OK)

    fetch = fetch_for(await wire(serve))
    with pytest.raises(RequestRefused):
        await fetch.get(["a"], headers={"X-Key": "value\r\nX-Other: 1"})

    assert received == []


async def test_no_cookie_is_kept(courier: Courier, fetch_for: FetchFor) -> None:
    cookies: list[str | None] = []

    async def asked(request: web.BaseRequest) -> web.Response:
        cookies.append(request.headers.get("Cookie"))
        return web.Response(headers={"Set-Cookie": "session=1"})

    fetch = fetch_for(await courier(asked))
    await fetch.get(["a"])
    await fetch.get(["b"])

    assert cookies == [None, None]


async def test_an_error_tells_neither_the_address_nor_a_secret_nor_more_than_a_kilobyte(
    courier: Courier, fetch_for: FetchFor
) -> None:
    async def asked(_: web.BaseRequest) -> web.Response:
        return web.Response(status=401, text="the-secret of the-client; " + "é" * 3000)

    fetch = fetch_for(await courier(asked))
    answer = await fetch.get(["a"], headers={"X-Key": "the-secret"})
    with pytest.raises(AuthFailed) as failed:
        fetch.read(answer, parse, NUMBER)
    excerpt = failed.value.excerpt

    assert failed.value.http_status == 401
    assert excerpt.startswith("*** of ***; é")
    assert len(excerpt.encode()) <= 1024


async def test_a_fault_of_a_parser_keeps_the_answer_and_is_never_pending(
    courier: Courier, fetch_for: FetchFor
) -> None:
    def faulty(*_: object) -> None:
        raise ZeroDivisionError("the-secret")

    async def asked(_: web.BaseRequest) -> web.Response:
        return web.Response(text="what was answered")

    fetch = fetch_for(await courier(asked))
    with pytest.raises(UnreadableAnswer, match="ZeroDivisionError") as failed:
        fetch.read(await fetch.get(["a"]), faulty, NUMBER)  # type: ignore[arg-type]

    assert failed.value.excerpt == "what was answered"
    assert "the-secret" not in str(failed.value)
