"""Clients that are slow, many or confused: each is answered in words, or cut off."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web
from door_ground import (
    CATALOGUE,
    NOWHERE,
    USPS,
    Client,
    FixedKeys,
    open_door,
    post,
    refused,
    serving,
)

from devstack.servers import free_port
from service.config.load import load
from service.http import requests as requests_module
from service.http import serve as serve_module
from service.http.application import application
from service.http.backend.bodies import Bodies
from service.http.backend.door import Door
from service.http.callers import Callers
from service.http.ingest import RELAYS, Relays
from service.http.serve import listening
from service.operator.keys import Scope
from service.operator.put import Sendable

MOST = 3
POST = b"POST /v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
LIVES = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_module, "HEADER_SECONDS", 0.15)


@pytest.fixture
async def port(disk: Path) -> AsyncIterator[int]:
    """A door as `ingest` serves it, without a beanstalkd."""
    async with served(disk / "spool.sqlite") as port:
        yield port


@pytest.fixture(params=[True, False], ids=["ingest", "api"])
async def parsed(request: pytest.FixtureRequest, disk: Path) -> AsyncIterator[int]:
    """Doors as both serve them, which read heads in different ways."""
    async with served(disk / "spool.sqlite", relays=request.param) as port:
        yield port


@asynccontextmanager
async def served(
    spool: Path, keys: FixedKeys | None = None, *, relays: bool = True
) -> AsyncIterator[int]:
    known = keys or FixedKeys()
    async with open_door(spool, NOWHERE) as door:
        made = application(door, CATALOGUE, Callers(known, 1_000.0))
        if relays:
            config = load(None, {}, spool.parent).config
            made[RELAYS] = Relays(config, known, door, Bodies(spool.parent))
        runner = web.AppRunner(made, access_log=None)
        await runner.setup()
        port = free_port()
        server = await listening(runner, f"127.0.0.1:{port}", MOST)
        yield port
        server.close()
        await runner.cleanup()


class Raw:
    """A connection on which anything may be said."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def says(self, *pieces: bytes) -> tuple[int, bytes, dict[str, Any]]:
        """Send pieces; gives status, head and body of the answer."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head)
            assert length
            body = await self.reader.readexactly(int(length[1]))
        return int(head.split()[1]), head, json.loads(body)

    async def is_ended(self) -> bool:
        """Whether the other end hangs up without another word."""
        async with asyncio.timeout(5):
            return await self.reader.read() == b""


async def served_again(port: int) -> None:
    """Wait for connections that ended to be counted no more."""
    async with asyncio.timeout(5):
        while True:
            async with Raw(port) as again:
                if (await again.says(LIVES))[0] == 200:
                    return


@pytest.mark.usefixtures("haste")
async def test_headers_that_do_not_end_are_not_waited_for(port: int) -> None:
    async with Raw(port) as slow:
        slow.writer.write(POST)

        assert await slow.is_ended()


@pytest.mark.usefixtures("haste")
async def test_nor_are_those_of_a_later_request(port: int) -> None:
    async with Raw(port) as slow:
        assert (await slow.says(LIVES))[0] == 200
        await asyncio.sleep(0.3)  # a connection without a request is not a slow one
        assert (await slow.says(LIVES))[0] == 200
        slow.writer.write(b"GET /livez HTTP/1.1\r\nHost:")

        assert await slow.is_ended()


@pytest.mark.usefixtures("haste")
async def test_a_body_may_take_longer_than_headers(port: int) -> None:
    body = json.dumps(USPS).encode()
    async with Raw(port) as slow:
        slow.writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(body))
        await asyncio.sleep(0.3)

        assert (await slow.says(body[:10], body[10:]))[0] == 202


@pytest.mark.usefixtures("haste")
async def test_nor_is_a_large_body_taken_for_headers_that_do_not_end(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(_: Door, requests: Sequence[Sendable]) -> Sequence[bool]:
        await asyncio.sleep(0.5)
        return [False] * len(requests)

    monkeypatch.setattr(Door, "take", slow)
    body = json.dumps(USPS | {"x": "y" * 1_000_000}).encode()
    async with Raw(port) as large:
        assert (await large.says(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body))[0] == 202


async def test_who_sends_slowly_keeps_nobody_out(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps(USPS).encode()
    said = POST + b"Content-Length: %d\r\n\r\n" % len(body)
    monkeypatch.setattr(requests_module, "IN_HAND_MOST", len(body))
    async with Raw(port) as slow, Raw(port) as quick:
        slow.writer.write(said + body[:-1])
        await slow.writer.drain()
        await asyncio.sleep(0.05)

        assert (await quick.says(said + body))[0] == 202
        assert (await slow.says(body[-1:]))[0] == 202


async def test_more_connections_than_are_allowed_are_refused_in_words(port: int) -> None:
    async with Raw(port) as first, Raw(port) as second, Raw(port) as third:
        for each in (first, second, third):
            assert (await each.says(LIVES))[0] == 200
        async with Raw(port) as fourth:
            status, head, problem = await fourth.says()
            assert (status, problem["status"]) == (503, 503)
            assert b"Retry-After: 1" in head
            assert await fourth.is_ended()
        assert (await first.says(LIVES))[0] == 200
        third.writer.close()
        await third.writer.wait_closed()
        await served_again(port)


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40,
        b"GARBAGE\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"POST /v1/requests HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/requests HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["tls", "words", "version", "length", "two lengths"],
)
async def test_what_is_no_http_is_a_problem_and_the_end_of_its_connection(
    parsed: int, said: bytes
) -> None:
    async with Raw(parsed) as strange:
        status, head, problem = await strange.says(said)

        assert (status, problem["status"]) == (400, 400)
        assert b"application/problem+json" in head
        assert "Error" not in str(problem)
        assert await strange.is_ended()


@pytest.mark.parametrize(
    ("said", "status", "bound"),
    [
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n", 414, "8190 bytes"),
        (b"GET /livez HTTP/1.1\r\nX-A: " + b"x" * 10_000 + b"\r\n\r\n", 431, "8192 bytes"),
        (b"GET /livez HTTP/1.1\r\nX-" + b"A" * 10_000 + b": x\r\n\r\n", 431, "8192 bytes"),
        (b"GET /livez HTTP/1.1\r\n" + b"X-A: b\r\n" * 200 + b"\r\n", 431, "128 headers"),
    ],
    ids=["line", "value", "name", "headers"],
)
async def test_what_is_too_long_is_told_how_long_it_may_be(
    parsed: int, said: bytes, status: int, bound: str
) -> None:
    async with Raw(parsed) as wordy:
        found, head, problem = await wordy.says(said)

        assert (found, problem["status"]) == (status, status)
        assert bound in problem["detail"]
        assert b"application/problem+json" in head
        assert await wordy.is_ended()


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"GZIP,chunked"])
async def test_a_body_in_a_coding_that_nobody_reads_here_is_refused(
    parsed: int, coding: bytes
) -> None:
    body = b"34\r\n%s\r\n0\r\n\r\n" % json.dumps(USPS).encode()
    async with Raw(parsed) as packed:
        said = POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + body
        status, _, problem = await packed.says(said)

        assert (status, problem["status"]) == (501, 501)
        assert "chunked" in problem["detail"]


@pytest.mark.parametrize(
    "said",
    [LIVES, b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GARBAGE\r\n\r\n", b"full"],
    ids=["good", "refused", "no HTTP", "too many"],
)
async def test_every_answer_has_the_headers_that_all_have(port: int, said: bytes) -> None:
    async with contextlib.AsyncExitStack() as others:
        if said == b"full":
            for _ in range(MOST):
                await (await others.enter_async_context(Raw(port))).says(LIVES)
        _, head, _ = await (await others.enter_async_context(Raw(port))).says(
            *([] if said == b"full" else [said])
        )

    found = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
    assert found["X-Content-Type-Options"] == "nosniff"
    assert found["Cache-Control"] == "no-store"
    assert found["X-Request-Id"]
    assert found["Server"] == "courier-tracking"


async def test_what_is_expected_besides_a_100_is_refused(port: int) -> None:
    body = json.dumps(USPS).encode()
    wanted = POST + b"Content-Length: %d\r\n" % len(body)
    async with Raw(port) as fussy:
        status, head, _ = await fussy.says(wanted + b"Expect: a miracle\r\n\r\n")
        assert status == 417
        assert b"application/problem+json" in head
    async with Raw(port) as polite:
        polite.writer.write(wanted + b"Expect: 100-continue\r\n\r\n")
        assert await polite.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await polite.says(body))[0] == 202


async def test_a_page_that_calls_the_door_by_a_name_of_its_own_is_refused(alone: Client) -> None:
    for name in ("evil.example", "127.0.0.1.evil.example:8081", "", "[::2]"):
        problem = await refused(await alone.get("/livez", headers={"Host": name}), 421)
        assert "http.hosts" in problem["detail"]
    for name in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8081"):
        assert (await alone.get("/livez", headers={"Host": name})).status == 200


async def test_a_page_of_another_origin_is_refused_while_no_key_is_asked_for(alone: Client) -> None:
    for origin in ("https://evil.example", "null", "http://localhost"):
        problem = await refused(await alone.post("/livez", headers={"Origin": origin}), 403)
        assert origin in problem["detail"]
    own = f"http://127.0.0.1:{alone.port}"
    assert (await alone.get("/livez", headers={"Origin": own})).status == 200


async def test_an_image_on_another_page_puts_no_request_while_no_key_is_asked_for(
    alone: Client,
) -> None:
    def fetched(site: str, mode: str) -> dict[str, str]:
        return {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}

    for site in ("cross-site", "same-site"):
        await refused(await alone.get("/nothing", headers=fetched(site, "no-cors")), 403)
        asks = "/v1/parcels/usps/9405903699300184125060?max_age=0"
        await refused(await alone.get(asks, headers=fetched(site, "navigate")), 403)
        assert (await alone.get("/docs", headers=fetched(site, "navigate"))).status == 200
    assert (await alone.get("/livez", headers=fetched("same-origin", "cors"))).status == 200


async def test_with_keys_any_name_will_do_unless_names_are_listed(disk: Path) -> None:
    keys = FixedKeys()
    header = {"as-api-key": keys.make("main", Scope.INGEST), "Host": "track.example.com"}
    callers = Callers(keys, 1_000.0)
    async with serving(disk / "a", NOWHERE, callers=callers) as client:
        assert (await post(client, USPS, **header)).status == 202
    async with serving(disk / "b", NOWHERE, callers=callers, hosts=("other.example",)) as client:
        await refused(await post(client, USPS, **header), 421)
        assert (await post(client, USPS, **header | {"Host": "Other.example:443"})).status == 202


async def test_every_answer_names_its_request(alone: Client) -> None:
    ours = [(await alone.get("/livez")).headers["X-Request-Id"] for _ in "12"]
    assert len(set(ours)) == 2

    named = {"X-Request-Id": "req-7"}
    assert (await alone.get("/nothing", headers=named)).headers["X-Request-Id"] == "req-7"
    for wrong in ("x" * 200, "a b", "<script>"):
        answer = await alone.get("/livez", headers={"X-Request-Id": wrong})
        assert answer.headers["X-Request-Id"] != wrong


async def test_no_other_origin_is_allowed(alone: Client) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    response = await alone.options("/v1/requests", headers=headers)

    await refused(response, 403)
    assert not [name for name in response.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[" + b"9" * 5_000 + b"]"])
async def test_what_is_nested_too_deep_or_counts_too_far_is_refused(
    alone: Client, body: bytes
) -> None:
    assert (await refused(await post(alone, body), 400))["reason"] == "bad_json"


async def test_a_client_that_hangs_up_in_the_middle_is_no_defect(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    for said in (POST, POST + b"Content-Length: 500\r\n\r\n{", LIVES):
        with closing(socket.create_connection(("127.0.0.1", port))) as gone:
            gone.sendall(said)

    await served_again(port)
    assert "error" not in capfd.readouterr().out


@pytest.mark.parametrize("chunk", [b"zz\r\n", b"-1\r\n", b"2\r\n{}x\r\n"])
async def test_a_body_whose_chunks_make_no_sense_is_a_problem(parsed: int, chunk: bytes) -> None:
    async with Raw(parsed) as strange:
        head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
        strange.writer.write(head)
        await asyncio.sleep(0)

        status, _, problem = await strange.says(chunk)
        assert (status, problem["status"]) == (400, 400)


async def test_a_trailer_is_no_header_of_the_next_request_over_the_same_connection(
    parsed: int,
) -> None:
    body = json.dumps(USPS).encode()
    chunked = b"%x\r\n%b\r\n0\r\nIdempotency-Key: mine\r\n\r\n" % (len(body), body)
    later = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with Raw(parsed) as shared:
        said = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked + later
        status, head, _ = await shared.says(said)

        assert (status, b"Connection: close" in head) == (202, True)
        assert await shared.is_ended()


GZIP = POST + b"Content-Encoding: gzip\r\n"


@pytest.mark.parametrize("relays", [True, False])
async def test_a_body_is_unpacked_for_nobody(disk: Path, *, relays: bool) -> None:
    keys = FixedKeys()
    key = b"as-api-key: %s\r\n" % keys.make("main", Scope.INGEST).encode()
    no_gzip = b"Content-Length: 6\r\n\r\nnogzip"
    async with served(disk / "spool.sqlite", keys, relays=relays) as port, Raw(port) as client:
        assert (await client.says(GZIP + no_gzip))[0] == 401
        # Who unpacks it finds that it is no gzip, and ends the connection.
        assert (await client.says(GZIP + key + no_gzip))[0] == 415
        assert (await client.says(LIVES))[0] == 200


@pytest.mark.parametrize(
    "said",
    [
        GZIP + b"Content-Length: 6\r\n\r\nnogzip",
        GZIP + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        LIVES.replace(b"GET", b"PUT")[:-2] + b"Transfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["no gzip", "no chunk", "no chunk, later"],
)
async def test_nobody_writes_into_the_log_by_a_body_that_is_not_read(
    parsed: int, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for later in (b"zz\r\n", b"2\r\n{}\r\nzz\r\n", b"2\r\n{", b"-1\r\n", b"0\r\n:\r\n\r\n"):
        async with Raw(parsed) as strange:
            assert (await strange.says(said))[0] in {405, 415, 400}
            strange.writer.write(later)
            await strange.writer.drain()

    await served_again(parsed)
    assert caplog.records == []
