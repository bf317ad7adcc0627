"""Attempts over HTTP: what a receiver sees, how each ends, and what no receiver can do."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import gzip
import socket
import threading
import time
from asyncio import StreamReader, StreamWriter
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from receiving import BODY, OK, SERVICE, Permit, Send, Wire, answering, head_of, request_of
from standardwebhooks import Webhook, WebhookVerificationError

from service.worker.deliveries.attempt import Failure
from service.worker.deliveries.destination import Allowed
from service.worker.deliveries.sender import BODY_MOST, Sender
from service.worker.deliveries.signing import new_secret, standard
from tracking.errors import NotStarted


async def test_a_delivery_arrives_as_it_is_with_its_headers(wire: Wire, send: Send) -> None:
    requests: list[bytes] = []
    sent = await send(await wire(answering(OK, requests)), headers={"webhook-id": "ID"})

    assert sent.ending.failure is None
    assert (sent.ending.status, sent.body, sent.headers["content-length"]) == (200, b"ok", "2")
    assert dt.datetime.now(dt.UTC) - sent.at < dt.timedelta(seconds=5)
    (request,) = requests
    assert request.startswith(b"POST /hook?shop=1 HTTP/1.1\r\n")
    assert request.partition(b"\r\n\r\n")[2] == BODY
    told = head_of(request)
    assert told.pop("host").startswith("shop.example:")
    assert told == {
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(BODY)),
        "user-agent": "courier-tracking-worker",
        "cdn-loop": "courier-tracking-worker",
        "webhook-id": "ID",
    }


async def test_at_the_stamp_the_operating_system_has_the_whole_delivery(
    deliver: Send, permit: Permit
) -> None:
    received, body = bytearray(), b'"' + b"x" * 100_000 + b'"'

    def take_what_has_left() -> None:
        # The event loop stands still in here: what it has not written yet cannot arrive.
        connection, _ = listener.accept()
        connection.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            while not received.endswith(body):
                received.extend(connection.recv(65536))
        connection.settimeout(None)
        connection.sendall(OK)
        connection.close()

    permit.when_sent = take_what_has_left
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await deliver(listener.getsockname()[1], body=body)

    assert received.endswith(b"\r\n\r\n" + body)
    assert permit.steps == ["before_send", "after_send", "answered"]


@pytest.mark.parametrize("late", [True, False])
async def test_a_permit_that_cannot_be_used_sends_nothing(
    *, late: bool, wire: Wire, deliver: Send, permit: Permit
) -> None:
    requests: list[bytes] = []
    port = await wire(answering(OK, requests))
    permit.stale = not late
    if late:
        permit.deadline = time.monotonic()
    with pytest.raises(NotStarted):
        await deliver(port)

    assert requests == []
    assert permit.steps == []


async def test_headers_of_the_service_are_sent_but_never_in_the_place_of_those_that_we_send(
    wire: Wire, send: Send
) -> None:
    requests: list[bytes] = []
    theirs = {"Webhook-Id": "mine", "HOST": "inside", "Content-Type": "text/plain", "X-Shop": "1"}
    theirs |= {"User-Agent": "me", "CDN-Loop": "", "Transfer-Encoding": "chunked", "X": "1\r\nY: 2"}
    service = replace(SERVICE, headers=theirs)
    await send(await wire(answering(OK, requests)), service, headers={"Webhook-Id": "ours"})

    told = head_of(requests[0])
    assert (told["webhook-id"], told["x-shop"], told["content-type"]) == (
        "ours",
        "1",
        "application/json",
    )
    assert told["user-agent"] == "courier-tracking-worker"
    assert told["host"].startswith("shop.example")
    assert not told.keys() & {"transfer-encoding", "x", "y"}


async def test_the_official_verifier_accepts_a_delivery_by_each_live_secret_and_by_no_other(
    wire: Wire, send: Send
) -> None:
    requests: list[bytes] = []
    live = [new_secret(), new_secret()]
    headers = standard(live, "DELIVERY", int(time.time()), BODY)
    await send(await wire(answering(OK, requests)), headers=headers)

    body, told = requests[0].partition(b"\r\n\r\n")[2], head_of(requests[0])
    for secret in live:
        assert Webhook(secret).verify(body, told)["type"] == "parcel.changed"
    for secret, changed in ((new_secret(), body), (live[0], body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(changed, told)


@pytest.mark.parametrize(
    ("answer", "failure", "rest"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", None, None),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "redirect", None),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", "refused", None),
        (b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", "gone", None),
        (b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", "overloaded", 7.0),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "server_error", None),
        (b"HTTP/1.1 503 Oh\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n", "server_error", 9.0),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not_http", None),
        (b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", "not_http", None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 9_000 + b"\r\n\r\n", "not_http", None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 200 + b"\r\n", "not_http", None),
        (b"", "connection", None),
    ],
)
async def test_an_answer_is_judged_by_its_head(
    answer: bytes, failure: Failure | None, rest: float | None, wire: Wire, deliver: Send
) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(answer)

    sent = await deliver(await wire(serve))

    assert (sent.ending.failure, sent.ending.rest_seconds) == (failure, rest)


async def test_a_redirect_leads_nowhere(wire: Wire, deliver: Send) -> None:
    elsewhere: list[bytes] = []
    inside = await wire(answering(OK, elsewhere))
    location = f"Location: http://127.0.0.1:{inside}/".encode()
    answer = b"HTTP/1.1 307 Moved\r\n" + location + b"\r\nContent-Length: 0\r\n\r\n"
    sent = await deliver(await wire(answering(answer)))

    assert (sent.ending.failure, sent.ending.status) == (Failure.REDIRECT, 307)
    assert elsewhere == []


async def test_a_gzip_bomb_is_kept_as_it_came(wire: Wire, deliver: Send) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    sent = await deliver(await wire(answering(head.encode() + bomb)))

    assert sent.ending.failure is None
    assert sent.body == bomb[:BODY_MOST]


async def test_of_an_answer_without_end_the_beginning_is_read_and_the_connection_closed(
    wire: Wire, deliver: Send
) -> None:
    closed = asyncio.Event()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 500 Oh\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        finally:
            closed.set()

    sent = await deliver(await wire(serve))

    assert sent.ending.failure is Failure.SERVER_ERROR
    assert sent.body == b"x" * BODY_MOST
    assert sent.ms < SERVICE.timeout_seconds * 600
    await asyncio.wait_for(closed.wait(), 5)


@pytest.mark.parametrize(
    ("first", "failure"),
    [(b"", Failure.TIMEOUT), (b"HTTP/1.1 200 OK\r\nX:", Failure.TIMEOUT), (OK[:-2], None)],
)
async def test_a_receiver_that_sends_a_byte_at_a_time_is_ended_by_the_time_out(
    first: bytes, failure: Failure | None, wire: Wire, deliver: Send
) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(first.replace(b"Length: 2", b"Length: 999"))
        for _ in range(60):
            writer.write(b"x" if first else b"")
            await asyncio.sleep(0.05)

    began = time.monotonic()
    sent = await deliver(await wire(serve), replace(SERVICE, timeout_seconds=0.4))

    assert sent.ending.failure is failure
    assert 0.3 < time.monotonic() - began < 2.5
    assert 300 <= sent.ms < 2_500


async def test_a_receiver_that_takes_no_body_is_ended_by_the_time_out(
    wire: Wire, deliver: Send
) -> None:
    async def serve(*_: object) -> None:
        await asyncio.sleep(60)

    large = replace(SERVICE, timeout_seconds=0.4)
    sent = await deliver(await wire(serve), large, body=bytes(1 << 20))

    assert sent.ending.failure is Failure.TIMEOUT


async def test_an_answer_before_the_body_was_taken_counts(wire: Wire, deliver: Send) -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await reader.readexactly(1 << 20)

    sent = await deliver(await wire(serve), body=bytes(1 << 20))

    assert (sent.ending.failure, sent.ending.status) == (Failure.REFUSED, 413)


async def test_a_kept_connection_is_used_again_and_one_that_breaks_is_not_asked_twice(
    wire: Wire, deliver: Send
) -> None:
    requests: list[bytes] = []
    connections: list[StreamWriter] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        connections.append(writer)
        for answer in (OK, OK, b""):
            requests.append(await request_of(reader))
            writer.write(answer)

    port = await wire(serve)
    endings = [(await deliver(port, using=Permit())).ending.failure for _ in range(3)]

    assert endings == [None, None, Failure.CONNECTION]
    assert (len(requests), len(connections)) == (3, 1)


async def test_cookies_are_not_kept(wire: Wire, deliver: Send) -> None:
    requests: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    port = await wire(answering(answer, requests))
    for _ in range(2):
        await deliver(port, using=Permit())

    assert ["cookie" in head_of(each) for each in requests] == [False, False]


async def test_of_the_answers_headers_a_bounded_part_is_kept(wire: Wire, deliver: Send) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 400) for number in range(60))
    answer = b"HTTP/1.1 200 OK\r\n" + many + b"Content-Length: 0\r\n\r\n"
    sent = await deliver(await wire(answering(answer)))

    assert len(sent.headers) == 50
    assert sent.headers["x-1"] == "x" * 300


async def test_no_proxy_is_taken_from_the_environment(
    wire: Wire, deliver: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[bytes] = []
    proxied: list[bytes] = []
    proxy = await wire(answering(OK, proxied))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
    await deliver(await wire(answering(OK, requests)))

    assert (len(requests), len(proxied)) == (1, 0)


@pytest.mark.parametrize(
    ("loop", "goes"),
    [
        ("other", True),
        ("other; v=1, courier-tracking-worker", True),
        ("courier-tracking-worker, Courier-Tracking-Worker; v=2", False),
    ],
)
async def test_what_came_through_here_more_than_once_goes_nowhere(
    loop: str, *, goes: bool, wire: Wire, send: Send, permit: Permit
) -> None:
    requests: list[bytes] = []
    sent = await send(await wire(answering(OK, requests)), headers={"CDN-Loop": loop})

    assert sent.ending.failure is (None if goes else Failure.FORBIDDEN_ADDRESS)
    assert permit.started == goes
    if goes:
        assert head_of(requests[0])["cdn-loop"] == f"{loop}, courier-tracking-worker"


async def test_a_name_that_nobody_knows_and_a_port_where_nobody_listens_are_no_connection(
    send: Send, permit: Permit, closing: AsyncExitStack
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert (await send(port)).ending.failure is Failure.CONNECTION

    def unknown(*_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    sender = Sender(lambda _: Allowed(), addresses=unknown)
    closing.push_async_callback(sender.close)
    service = replace(SERVICE, destination="https://nobody.example/")
    sent = await sender.send(service, {}, BODY, permit)

    assert sent.ending.failure is Failure.CONNECTION
    assert not permit.started


async def test_names_of_destinations_are_looked_up_in_threads_of_their_own(
    closing: AsyncExitStack, permit: Permit
) -> None:
    threads: list[str] = []

    def slow(*_: Any) -> list[Any]:
        threads.append(threading.current_thread().name)
        time.sleep(1.0)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    sender = Sender(lambda _: Allowed(), addresses=slow)
    closing.push_async_callback(sender.close)
    service = replace(SERVICE, destination="https://slow.example/", timeout_seconds=0.2)
    sent = await sender.send(service, {}, BODY, permit)

    assert sent.ending.failure is Failure.TIMEOUT
    assert [name.rpartition("_")[0] for name in threads] == ["names of destinations"]
