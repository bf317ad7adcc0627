"""No name and no form of a host leads a delivery into a network that only we reach."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from receiving import BODY, FOREIGN, HERE, OK, SERVICE, Permit, Wire, answering, at_localhost

from service.worker.deliveries.attempt import Failure
from service.worker.deliveries.destination import Allowed
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.sender import Sender
from tracking.request import Account

ADDRESSES = (
    ("127.0.0.1", "rebinding: a public name that leads to the machine itself"),
    ("0.0.0.0", "the machine itself, in another way"),  # noqa: S104
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("192.168.0.1", "private"),
    ("169.254.169.254", "metadata of a cloud"),
    ("169.254.170.2", "metadata of a container"),
    ("100.64.0.1", "carriers' NAT"),
    ("100.100.100.200", "metadata of a cloud in carriers' NAT"),
    ("::1", "loopback"),
    ("::", "unspecified"),
    ("::ffff:127.0.0.1", "IPv4-mapped"),
    ("::ffff:169.254.169.254", "IPv4-mapped metadata"),
    ("::127.0.0.1", "IPv4-compatible"),
    ("64:ff9b::7f00:1", "NAT64"),
    ("64:ff9b:1::7f00:1", "local NAT64"),
    ("2002:7f00:1::", "6to4"),
    ("2001:0:7f00:1::", "Teredo"),
    ("fe80::1", "link-local"),
    ("fe80::1%lo", "link-local with its zone"),
    ("fd00:ec2::254", "metadata of a cloud"),
    ("ff02::1", "multicast"),
)
HOSTS = (
    ("localhost", "no name of the internet"),
    ("localhost.", "the same with a dot"),
    ("LOCALHOST", "the same"),
    ("localhost.localdomain", "a name that the machine's own table has"),
    ("127.0.0.1", "a literal"),
    ("127.0.0.1.", "a literal with a dot"),
    ("[::1]", "a literal"),
    ("[::ffff:7f00:1]", "a literal, mapped"),
    ("[64:ff9b::7f00:1]", "a literal, NAT64"),
    ("2130706433", "decimal"),
    ("0x7f000001", "hexadecimal"),
    ("0x7f.1", "hexadecimal and short"),
    ("0177.0.0.1", "octal"),
    ("127.1", "short"),
    ("0", "the shortest"),
    ("\uff11\uff12\uff17.0.0.1", "digits of another script"),
    ("tracking.example", "this service itself"),
    ("TRACKING.example.", "this service itself"),
)


@pytest.fixture
def inside() -> Iterator[tuple[int, list[Any]]]:
    """A server of this machine, and whom it saw."""
    seen: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    seen.append(listener.accept())

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], seen
        listener.shutdown(socket.SHUT_RDWR)


def forbidding(port: int, lookup: Callable[..., Any]) -> Sender:
    """A sender for an account that may use http and this port, and nothing inside."""
    allowed = Allowed(http=True, ports=frozenset({port}))
    return Sender(lambda _: allowed, {"tracking.example"}, addresses=lookup)


@pytest.mark.parametrize("foreign", [None, FOREIGN], ids=["webhook", "relayed"])
@pytest.mark.parametrize(("address", "why"), ADDRESSES)
async def test_a_name_that_leads_inside_is_not_connected_to(
    address: str,
    why: str,
    foreign: ForeignRequest | None,
    inside: tuple[int, list[Any]],
    permit: Permit,
) -> None:
    port, seen = inside

    def lookup(_: str, port: int, *__: Any) -> list[Any]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        found = (address, port, 0, 0) if ":" in address else (address, port)
        return [(family, socket.SOCK_STREAM, 6, "", found)]

    sender = forbidding(port, lookup)
    service = replace(SERVICE, destination=f"http://shop.example:{port}/")
    sent = await sender.send(service, {}, BODY, permit, foreign)
    await sender.close()

    assert sent.ending.failure is Failure.FORBIDDEN_ADDRESS, why
    assert (sent.headers, sent.body) == ({}, b"")
    assert not permit.started
    assert seen == []


@pytest.mark.parametrize(("host", "why"), HOSTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_no_form_of_a_host_leads_inside(
    host: str, why: str, scheme: str, inside: tuple[int, list[Any]], permit: Permit
) -> None:
    port, seen = inside
    sender = forbidding(port, socket.getaddrinfo)
    service = replace(SERVICE, destination=f"{scheme}://{host}:{port}/")
    sent = await sender.send(service, {}, BODY, permit)
    await sender.close()

    # A name that only some machines have may be no name here.
    possible = {Failure.FORBIDDEN_ADDRESS}
    if host == "localhost.localdomain":
        possible.add(Failure.CONNECTION)
    assert sent.ending.failure in possible, why
    assert not permit.started
    assert seen == []


async def test_of_a_names_addresses_those_inside_are_passed_over(
    wire: Wire, closing: AsyncExitStack, permit: Permit
) -> None:
    requests: list[bytes] = []
    port = await wire(answering(OK, requests))

    def lookup(_: str, port: int, *__: Any) -> list[Any]:
        found = ("10.0.0.1", "169.254.169.254", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    allowed = Allowed((HERE,), http=True, ports=frozenset({port}))
    sender = Sender(lambda _: allowed, addresses=lookup)
    closing.push_async_callback(sender.close)
    service = replace(SERVICE, destination=f"http://shop.example:{port}/")

    assert (await sender.send(service, {}, BODY, permit)).ending.failure is None
    assert len(requests) == 1


async def test_a_connection_of_an_account_is_never_used_for_one_that_is_allowed_less(
    wire: Wire, closing: AsyncExitStack
) -> None:
    requests: list[bytes] = []
    port = await wire(answering(OK, requests))
    more = Allowed((HERE,), http=True, ports=frozenset({port}))
    allowed = {Account("shop"): more, Account("other"): replace(more, networks=())}
    sender = Sender(allowed.__getitem__, addresses=at_localhost)
    closing.push_async_callback(sender.close)
    endings = []
    for account in (*allowed, *allowed):
        url = f"http://shop.example:{port}/"
        service = replace(SERVICE, account=account, destination=url)
        endings.append((await sender.send(service, {}, BODY, Permit())).ending.failure)

    assert endings == [None, Failure.FORBIDDEN_ADDRESS] * 2
    assert len(requests) == 2


@pytest.mark.parametrize("port", [80, 22, 6379, 8080])
async def test_only_the_ports_of_https_are_reached(port: int, permit: Permit) -> None:
    sender = Sender(lambda _: Allowed((HERE,)), addresses=at_localhost)
    service = replace(SERVICE, destination=f"https://shop.example:{port}/")
    sent = await sender.send(service, {}, BODY, permit)
    await sender.close()

    assert sent.ending.failure is Failure.FORBIDDEN_ADDRESS
    assert not permit.started
