"""Whatever a courier sends, in whatever HTTP, is an answer or an error of the closed set.

Beyond tests/couriers/test_parser_properties.py: every status, headers as servers write them,
answers that were right and got damaged, and HTTP itself.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from typing import Any

import pytest
from damage import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from loopback import RecordingPermit, request_of
from parser_subjects import NUMBER, SUBJECTS, Subject
from portion import examples

from couriers import json_feed
from couriers.http.credentials import LIFETIME_MOST, CourierSettings, Grant, read_token
from couriers.http.fetch import BODY_BYTES, Fetch, TokenCache
from couriers.http.redaction import EXCERPT_BYTES
from couriers.http.refusals import RETRY_AFTER_MOST, refuse, retry_after
from couriers.http.session import open_session
from couriers.reading.answer import Answer
from tracking.checkpoint import Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
)
from tracking.request import Slug

pytestmark = pytest.mark.portion

CLOSED_SET = (AuthFailed, CourierDown, InvalidNumber, RequestRefused, UnreadableAnswer)
SECRET = "the-secret-of-the-shop"  # noqa: S105 - made up
GRANT = Grant("https://courier.example/token", form={"grant_type": "client_credentials"})

DATES = st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT")) | st.sampled_from(
    ["Mon, 05 Jan 2026 12:01:30 GMT", "Mon, 05 Jan 2026 12:01:30 -0000", "05 Jan 26 12:01 +2400"]
)
NUMBERS = st.integers(-(10**12), 10**12).map(str) | st.floats().map(repr)
RETRY_AFTER = (
    DATES | NUMBERS | st.text(max_size=12) | st.sampled_from(["9" * 5000, "1e400", "٣", "²", "1_0"])
)
TYPES = st.sampled_from(
    ["application/json", "text/html; charset=klingon", 'a/b; charset="', "", "application/xml"]
)
HEADERS = st.fixed_dictionaries(
    {}, optional={"retry-after": RETRY_AFTER, "date": DATES | RETRY_AFTER, "content-type": TYPES}
)
STATUSES = st.integers(100, 599)
EVENTS = [
    ("2026-01-05T08:15:00", "Accepted at the post office", ""),
    ("2026-01-06T23:59:00", "Delivered", ""),
]
PIECES = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"[]", b"{}", b'""', b"NaN", b"1e999"),
    *(b"\xff", b"\x00", b"\\ud800", b"<", b">", b"</", b"<!DOCTYPE x>", b"&x;", b"\xef\xbb\xbf"),
    *(b"9999-12-31", b"0001-01-01", b"T24:00:00", b"+99:99", b"9" * 400),
)


def read(subject: Subject, status: int, headers: dict[str, str], body: bytes) -> Tracking | None:
    try:
        told = subject.module.parse(status, headers, body, NUMBER)
    except RateLimited as error:
        assert_it_may_be_waited_for(error.retry_after)
        return None
    except CLOSED_SET:
        return None
    assert isinstance(told, Tracking)
    return told


def assert_it_may_be_waited_for(seconds: float | None) -> None:
    assert seconds is None or 1 <= seconds <= RETRY_AFTER_MOST


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.module.__name__)
def test_an_answer_that_was_damaged_is_read_or_refused(subject: Subject) -> None:
    whole = subject.encode(subject.answer([(at, what, subject.codes[0]) for at, what, _ in EVENTS]))

    @examples(6)
    @given(damaged(whole, PIECES), st.just(200) | STATUSES, HEADERS)
    def reads(body: bytes, status: int, headers: dict[str, str]) -> None:
        told = read(subject, status, headers, body)
        # What would be stored must be storable.
        json.dumps([str(point) for point in told.checkpoints] if told else None).encode()

    reads()


@examples(40)
@given(STATUSES, HEADERS, st.binary(max_size=40) | st.sampled_from([b"Daily quota exceeded"]))
def test_every_status_is_refused_by_its_meaning_or_left_to_the_module(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    try:
        refuse(status, headers, body)
    except RateLimited as error:
        assert_it_may_be_waited_for(error.retry_after)
    except CourierError:
        assert not 200 <= status < 300
    else:
        assert status < 300 or 400 <= status < 500
    assert_it_may_be_waited_for(retry_after(headers, body))


TOKENS = st.fixed_dictionaries(
    {},
    optional={
        "access_token": st.text(max_size=20) | st.integers() | st.none(),
        "expires_in": NUMBERS | st.integers(-(10**18), 10**18) | st.floats() | st.booleans(),
    },
).map(lambda members: json.dumps(members).encode())


@examples(50)
@given(STATUSES | st.just(200), HEADERS, TOKENS | st.binary(max_size=60))
@example(200, {}, b'{"access_token":"abc","expires_in":"nan"}')
@example(200, {}, b'{"access_token":"abc","expires_in":-5}')
@example(200, {}, b'{"access_token":"abc","expires_in":' + b"9" * 400 + b"}")
def test_a_token_has_a_lifetime_or_there_is_none(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    try:
        token = read_token(Answer(status, headers, body), GRANT)
    except CourierError:
        return
    assert token.value.isascii() & token.value.isprintable()
    assert math.isfinite(token.lifetime)
    assert 0 <= token.lifetime <= LIFETIME_MOST


def response(body: bytes, encoding: bytes = b"") -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 05 Jan 2026 12:00:00 GMT"
    )
    named = b"\r\nContent-Encoding: " + encoding if encoding else b""
    return head + named + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


FEED = json.dumps({"tag": "InTransit", "checkpoints": [], "echo": SECRET}).encode()
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n" % len(FEED)
    + FEED
    + b"\r\n0\r\nTrailer: x\r\n\r\n"
)
WIRE = st.sampled_from(
    [response(FEED), response(gzip.compress(FEED), b"gzip"), response(FEED, b"br, gzip"), CHUNKED]
)
WIRE_PIECES = (
    *(b"\r\n", b"\n", b"\r\n\r\n", b":", b" ", b"\t", b"\x00", b"\xff", b"HTTP/2.0", b"HTTP/1.0"),
    *(b"100", b"101", b"204", b"304", b"407", b"999", b"-1", b"Transfer-Encoding: chunked\r\n"),
    *(b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"ffffffffffffffff"),
    *(b"Content-Encoding: deflate\r\n", b"Content-Encoding: gzip, gzip\r\n", b"Upgrade: h2c\r\n"),
    *(b"Set-Cookie: a=b\r\n", b"Retry-After: Mon\r\n", b"Date: \xff\r\n", b"Location: //\r\n"),
)
ON_THE_WIRE = WIRE.flatmap(lambda whole: damaged(whole, WIRE_PIECES, most=3))


class Wire:
    """One courier that answers what it is told to, and the session that asks it."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.reply = b""
        self.runner.run(self._open())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._http = open_session()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(self.reply)
        writer.close()

    def ask(self, reply: bytes) -> tuple[Fetch, Answer | CourierError]:
        """The courier's reply as a module gets it."""
        self.reply = reply
        base = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        settings = CourierSettings(Slug("acme"), base, credentials={"key": SECRET})
        fetch = Fetch(self._http, settings, RecordingPermit(5.0), TokenCache())

        async def get() -> Answer | CourierError:
            try:
                return await fetch.get(["a"])
            except CourierError as error:
                return error

        return fetch, self.runner.run(get())

    def close(self) -> None:
        async def close() -> None:
            await self._http.close()
            self._server.close()

        self.runner.run(close())
        self.runner.close()


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    opened = Wire()
    yield opened
    opened.close()


@examples(40)
@given(reply=ON_THE_WIRE | st.binary(max_size=80))
def test_any_http_is_an_answer_or_an_error_without_secrets(wire: Wire, reply: bytes) -> None:
    fetch, told = wire.ask(reply)
    if isinstance(told, Answer):
        assert len(told.body) <= BODY_BYTES
        assert told.headers["date"]
        assert all(name == name.lower() for name in told.headers)
        told = _read(fetch, told)
    if isinstance(told, CourierError):
        assert SECRET not in f"{told} {told.message} {told.excerpt}"
        assert len(told.excerpt.encode()) <= EXCERPT_BYTES


def _read(fetch: Fetch, answer: Answer) -> Any:
    try:
        return fetch.read(answer, json_feed.parse, NUMBER)
    except CourierError as error:
        return error


def test_after_all_that_a_plain_answer_is_still_read(wire: Wire) -> None:
    fetch, told = wire.ask(response(FEED))

    assert isinstance(told, Answer)
    assert isinstance(_read(fetch, told), Tracking)
