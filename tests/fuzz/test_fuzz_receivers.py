"""Whatever an account writes as its destination, and whatever a receiver answers, has one end.

A destination is an address or is refused in words. An answer is judged by a closed set of words,
and what is kept of it is bounded.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from damage import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from loopback import RecordingPermit, request_of
from portion import examples
from test_fuzz_answers import ON_THE_WIRE
from yarl import URL

from service.worker.deliveries.attempt import REST_MOST_SECONDS, Failure
from service.worker.deliveries.destination import (
    Allowed,
    BadDestination,
    check_headers,
    is_header,
    is_public,
    parse_destination,
)
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.relayed import head_of
from service.worker.deliveries.sender import BODY_MOST, HEADER_KEPT, HEADERS_KEPT, Sender, Sent
from service.worker.deliveries.service import SealedSecret, Service
from tracking.request import Account

pytestmark = pytest.mark.portion

FOREIGN = ForeignRequest(
    id="0" * 32,
    label=IngestLabel(Account("shop"), "hook", "a" * 21),
    received_at=dt.datetime(2026, 11, 26, tzinfo=dt.UTC),
    method="POST",
    target="/",
    url="https://in.example/",
    headers=(),
    body=b"",
)

ADDRESSES = st.sampled_from(
    [
        b"https://shop.example/hook?shop=1",
        b"https://user:word@shop.example:8443/",
        b"https://127.0.0.1/",
        b"https://[::ffff:7f00:1]:443/",
    ]
)
ADDRESS_PIECES = (
    *(
        b"@",
        b":",
        b"//",
        b"[",
        b"]",
        b"%00",
        b"%2e",
        b"#",
        b"\\",
        b"\x00",
        b"\r\n",
        b"\xe3\x80\x82",
    ),
    *(b"127.1", b"0x7f.1", b"localhost", b".", b"..", b"\xef\xbc\x91", b"xn--", b":0", b":99999"),
)
WRITTEN = ADDRESSES.flatmap(lambda whole: damaged(whole, ADDRESS_PIECES, most=3)).map(
    lambda damage: damage.decode("utf-8", "replace")
)


@examples(300)
@given(text=WRITTEN | st.text(max_size=60).map("https://{}".format))
@example(text="https://127.0.0.1\uff0e/")
def test_a_destination_is_refused_or_leads_to_a_name_by_https(text: str) -> None:
    try:
        url = parse_destination(text)
    except BadDestination:
        return
    assert (url.scheme, url.user, url.port in {443, 8443}) == ("https", None, True)
    host = (url.raw_host or "").rstrip(".")
    assert host.isascii()
    with pytest.raises(OSError, match="inet_aton"):
        socket.inet_aton(host)  # it reads all forms that the C library knows
    with pytest.raises(ValueError, match="does not appear"):
        ipaddress.ip_address(host)


@examples(300)
@given(address=st.ip_addresses())
def test_an_address_counts_as_public_only_where_python_thinks_so_too(address: Any) -> None:
    # Python knows some blocks too few, and none too many.
    assert not is_public(str(address)) or address.is_global
    other = f"::ffff:{address}" if address.version == 4 else f"{address}%eth0"
    assert not is_public(other) or address.is_global


@examples(200)
@given(headers=st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_headers_of_an_account_are_refused_or_can_be_sent(headers: dict[str, str]) -> None:
    try:
        check_headers(headers)
    except BadDestination:
        return
    assert all(is_header(*each) for each in headers.items())


BYTES = st.text(st.characters(max_codepoint=255), max_size=12)
NAMES = st.sampled_from(["X-A", "x-a", "Content-Length", "Connection", "relay-id"]) | BYTES


@examples(300)
@given(
    method=st.sampled_from(["POST", "put", "GET"]) | BYTES,
    target=BYTES.map("/{}".format) | BYTES,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=4),
)
@example(method="POST", target="/", headers=[("X", "1\r\nY: 2")])
@example(method="POST", target="/ HTTP/1.1\r\nX:", headers=[])
@example(method="POST", target="/", headers=[("Connection", "X-A"), ("X-A", "1"), ("X_A", "2")])
def test_a_foreign_request_is_not_written_or_is_what_it_was(
    method: str, target: str, headers: list[tuple[str, str]]
) -> None:
    foreign = replace(FOREIGN, method=method, target=target, headers=tuple(headers))
    try:
        head = head_of(foreign, URL("https://shop.example"), {"relay-id": "ID"})
    except ValueError:
        return
    first, host, *lines, _, _ = head.decode("latin-1").split("\r\n")
    assert (first, host) == (f"{method} {target} HTTP/1.1", "Host: shop.example")
    assert lines.pop() == "relay-id: ID"
    if method not in {"GET", "HEAD", "OPTIONS", "DELETE"}:
        assert lines.pop() == "Content-Length: 0"
    left = iter([f"{name}: {value}" for name, value in headers])
    assert all(each in left for each in lines)  # as they came, in order
    assert not [each for each in lines if each.lower().startswith(("relay-id", "content-length"))]


class Receiver:
    """A receiver that answers what it is told to, and the sender that delivers to it."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self._reply = b""
        self.runner.run(self._open())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        here = ipaddress.IPv4Network("127.0.0.0/8")
        allowed = Allowed((here,), http=True, ports=frozenset({port}))
        self._sender = Sender(lambda _: allowed)
        self._service = Service(
            id="a1b2c3d4e5f6g7h8",
            account=Account("shop"),
            name="hook",
            destination=f"http://127.0.0.1:{port}/",
            secrets=(SealedSecret("sealed"),),
            made_at=dt.datetime(2026, 5, 4, tzinfo=dt.UTC),
        )

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        await request_of(reader)
        writer.write(self._reply)
        writer.close()

    def answering(self, reply: bytes) -> Sent:
        """What comes of an attempt that is answered so."""
        self._reply = reply
        sending = self._sender.send(self._service, {}, b"{}", RecordingPermit(5.0))
        return self.runner.run(sending)

    def close(self) -> None:
        async def close() -> None:
            await self._sender.close()
            self._server.close()

        self.runner.run(close())
        self.runner.close()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    opened = Receiver()
    yield opened
    opened.close()


@examples(40)
@given(reply=ON_THE_WIRE | st.binary(max_size=80))
def test_any_http_is_an_ending_with_a_bounded_answer(receiver: Receiver, reply: bytes) -> None:
    sent = receiver.answering(reply)
    ending = sent.ending
    assert ending.failure is None or ending.failure in Failure
    assert (ending.failure is None) == (ending.status is not None and 200 <= ending.status <= 299)
    assert ending.rest_seconds is None or 0 <= ending.rest_seconds <= REST_MOST_SECONDS
    assert len(sent.body) <= BODY_MOST
    assert len(sent.headers) <= HEADERS_KEPT
    assert all(len(text) <= HEADER_KEPT for text in sent.headers.values())
    assert "127.0.0.1" not in f"{ending}"
