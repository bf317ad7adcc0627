"""Where deliveries may go, by the words of an address and by the address behind a name."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver

from service.worker.deliveries.destination import (
    NOTHING_MORE,
    Allowed,
    BadDestination,
    Forbidden,
    Guard,
    check_headers,
    is_public,
    parse_destination,
)

PRIVATE = (
    ("0.0.0.0", "this network: many connect it to themselves"),  # noqa: S104
    ("10.1.2.3", "private"),
    ("100.64.0.1", "carriers' NAT"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "the end of loopback"),
    ("169.254.169.254", "metadata of a cloud"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "the end of it"),
    ("192.0.0.8", "protocol assignments"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4 relays"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmarks"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("240.0.0.1", "class E"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::127.0.0.1", "IPv4-compatible"),
    ("::ffff:127.0.0.1", "IPv4-mapped"),
    ("::ffff:8.8.8.8", "IPv4-mapped, though of a public one: nobody resolves to it"),
    ("64:ff9b::7f00:1", "NAT64 of 127.0.0.1"),
    ("64:ff9b:1::a00:1", "local NAT64"),
    ("100::1", "discard"),
    ("2001::1", "Teredo"),
    ("2001:20::1", "ORCHID"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::", "6to4 of 127.0.0.1"),
    ("3fff::1", "documentation"),
    ("5f00::1", "SRv6"),
    ("fc00::1", "unique local"),
    ("fd00:ec2::254", "metadata of a cloud"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local with its zone"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
    ("no address", "no address at all"),
)
PUBLIC = ("1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "2606:4700:4700::1111")

LOOPBACK = Allowed(networks=(ipaddress.IPv4Network("127.0.0.0/8"),), http=True)


@pytest.mark.parametrize(("address", "why"), PRIVATE)
def test_no_delivery_goes_to_an_address_that_is_not_public(address: str, why: str) -> None:
    assert not is_public(address), why


@pytest.mark.parametrize("address", PUBLIC)
def test_a_delivery_goes_to_a_public_address(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_an_operator_may_allow_a_network_in_either_writing(address: str) -> None:
    assert is_public(address, LOOPBACK)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://shop.example/hook", "https://"),
        ("ftp://shop.example/hook", "https://"),
        ("shop.example/hook", "https://"),
        ("https://user:secret@shop.example/", "user and password"),
        ("https://shop.example/#part", "#"),
        ("https://shop.example:8080/", "port 8080"),
        ("https://shop.example:443000/", "not an address"),
        ("https:///hook", "host"),
        ("https://10.0.0.1/", "IP address"),
        ("https://[::1]/", "IP address"),
        ("https://localhost/", "public internet"),
        ("https://redis/", "public internet"),
        ("https://tracking.example/hook", "this service itself"),
        ("https://TRACKING.example./hook", "this service itself"),
        ("https://\uff54racking\u3002example/hook", "this service itself"),
        ("https://localhost./", "public internet"),
        ("https://127.0.0.1./", "IP address"),
        ("https://2130706433/", "IP address"),
        ("https://0x7f000001/", "IP address"),
        ("https://0x7f.1/", "IP address"),
        ("https://0177.0.0.1/", "IP address"),
        ("https://127.1/", "IP address"),
        ("https://[::ffff:127.0.0.1]/", "IP address"),
        ("https://[fe80::1%25eth0]/", "IP address"),
        ("https://%74racking.example/", "no name of a host"),
        ("https://shop..example/", "no name of a host"),
        ("https://shop example/", "no name of a host"),
        ("https://shop.example/" + "a" * 2_048, "2048 characters"),
        ("https://in.example/", "this service itself"),
        ("https://main-shop-r.in.example/", "this service itself"),
    ],
)
def test_an_address_that_cannot_be_served_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(BadDestination, match=said):
        parse_destination(text, own={"tracking.example", "in.example", ".in.example"})


@pytest.mark.parametrize(
    "text",
    ["https://shop.example/hook?shop=1", "https://shop.example:8443/", "https://bücher.example/"],
)
def test_an_address_of_the_public_internet_is_taken(text: str) -> None:
    assert parse_destination(text).scheme == "https"


def test_an_operators_allowance_takes_http_a_port_and_an_address() -> None:
    allowed = Allowed(LOOPBACK.networks, http=True, ports=frozenset({9_000}))
    assert parse_destination("http://127.0.0.1:9000/hook", allowed).port == 9_000
    with pytest.raises(BadDestination, match="IP address"):
        parse_destination("http://10.0.0.1:9000/hook", allowed)


@pytest.mark.parametrize(
    "name",
    ["Webhook-Id", "host", "Content-Length", "User-Agent", "CDN-Loop", "Transfer-Encoding", "TE"],
)
def test_an_account_cannot_take_the_place_of_a_header_that_we_send(name: str) -> None:
    with pytest.raises(BadDestination, match="is ours"):
        check_headers({name: "mine"})


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({f"X-{number}": "1" for number in range(21)}, "21 headers"),
        ({"X-Long": "1" * 4_096}, "4096 characters"),
        ({"X-Shop": "1", "x-shop": "2"}, "twice"),
        ({"X-Shop": "1\r\nHost: inside"}, "cannot be sent"),
        ({"X-Shop": "bücher"}, "cannot be sent"),
        ({"X-Shop": " 1"}, "cannot be sent"),
        ({"X-Shop": ""}, "cannot be sent"),
        ({"X Shop": "1"}, "cannot be sent"),
        ({"X-Shop:": "1"}, "cannot be sent"),
        ({"": "1"}, "cannot be sent"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_with_the_reason(
    headers: dict[str, str], said: str
) -> None:
    with pytest.raises(BadDestination, match=said):
        check_headers(headers)


def test_an_account_may_add_headers() -> None:
    check_headers({"Authorization": "Bearer 1234", "X-Shop": "one, two"})


class Rebinding(AbstractResolver):
    """A name server that answers with an address of the machine itself."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[Any]:
        found = {"hostname": host, "host": "127.0.0.1", "port": port}
        return [found | {"family": family, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Serve on the loopback interface, where no delivery may come."""

    async def inside(_: web.Request) -> web.Response:
        return web.Response(text="inside")

    application = web.Application()
    application.router.add_get("/", inside)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def asked(url: str, allowed: Allowed = NOTHING_MORE) -> str:
    """Ask as deliveries do, by names that a hostile server resolves."""
    guard = Guard(allowed)
    connector = aiohttp.TCPConnector(resolver=Rebinding(), socket_factory=guard)
    async with aiohttp.ClientSession(connector=connector) as http, http.get(url) as response:
        return await response.text()


@pytest.mark.parametrize(
    "host", ["shop.example", "127.0.0.1", "[::ffff:127.0.0.1]", "0x7f.1", "127.000.000.001"]
)
async def test_whatever_name_or_form_leads_inside_no_socket_is_made(host: str, port: int) -> None:
    with pytest.raises((aiohttp.ClientConnectorError, aiohttp.InvalidURL)) as refused:
        await asked(f"http://{host}:{port}/")
    error = refused.value
    refused_by_guard = isinstance(getattr(error, "os_error", None), Forbidden)
    assert refused_by_guard or isinstance(error, aiohttp.InvalidURL)


async def test_the_refusal_names_no_address(port: int) -> None:
    with pytest.raises(aiohttp.ClientConnectorError) as refused:
        await asked(f"http://shop.example:{port}/")
    assert "127.0.0.1" not in str(refused.value.os_error)


async def test_what_an_operator_allows_is_reached(port: int) -> None:
    assert await asked(f"http://shop.example:{port}/", LOOPBACK) == "inside"
