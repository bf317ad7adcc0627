"""Destinations: where deliveries may go, checked in words and again when a socket is made.

With them go the headers that an account may add: none takes the place of one that we send.

An account writes the address, and our network must not become its way into places that only we
reach. The words alone tell little: a name may resolve to 127.0.0.1, today or between two look-ups.
So `Guard`, which makes each socket, judges the address: it is the one to which the socket is
connected, whatever name, literal or form led to it.

============ ===================================================================================
address      let through
============ ===================================================================================
IPv4         all but the special-purpose blocks (IANA's registry, RFC 6890), multicast, class E
IPv6         global unicast, 2000::/3, without its special-purpose blocks: so neither loopback,
             link-local, unique local, multicast, IPv4-mapped, NAT64 nor SRv6
in both      what an operator's `Allowed` names: networks, the scheme http, further ports
============ ===================================================================================

Blocks: https://www.iana.org/assignments/iana-ipv4-special-registry, and iana-ipv6-special-registry.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yarl import URL

from service.config.schema import Config
from service.worker.deliveries.foreign_request import TCHAR

PORTS = frozenset({443, 8443})
ADDRESS_MOST = 2_048
"""Characters of an address."""

HEADERS_MOST = 20
HEADERS_CHARACTERS = 4_096
"""Characters of all headers that an account adds: many servers take 8 KiB of them at most."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""A host that the C library reads as an IPv4 address: 127.1, 0177.0.0.1, 0x7f.1, 2130706433."""

_FIELD_NAME = re.compile(f"{TCHAR}{{1,100}}")
_FIELD_VALUE = re.compile(r"[!-~](?:[ !-~]*[!-~])?")
_OURS = re.compile(
    r"webhook-.*|aftership-.*|relay-.*|content-.*|proxy-.*|host|user-agent|cdn-loop|accept-encoding"
    r"|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect",
    re.IGNORECASE,
)
"""Names of headers that say what is sent, by whom, and how: these are ours alone."""

_SPECIAL_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by carriers' NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local; clouds serve their machines' credentials there
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # Teredo, ORCHID, benchmarks
            "2001:db8::/32",
            "2002::/16",  # 6to4: an IPv4 address stands in it
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)


class BadDestination(ValueError):
    """An address to which nothing is delivered; the text is for the account."""


class Forbidden(OSError):
    """The name leads to an address where no delivery may go. Its text names no address.

    An OSError, so that another address of the same name is tried.
    """

    def __init__(self) -> None:
        super().__init__("the destination's name leads into a network that is not public")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an operator allows an account beside public addresses."""

    networks: tuple[Network, ...] = ()
    http: bool = False
    ports: frozenset[int] = frozenset()


NOTHING_MORE = Allowed()


def allowed_of(config: Config, account: str) -> Allowed:
    """Say what the operator allows an account (`[webhooks.allowed.<account>]`)."""
    found = config.webhooks.allowed.get(account)
    if found is None:
        return NOTHING_MORE
    networks = tuple(map(ipaddress.ip_network, found.networks))
    return Allowed(networks, found.http, frozenset(found.ports))


def own_names_of(config: Config) -> tuple[str, ...]:
    """List the host names of this service; one that begins with a dot stands for all below it."""
    domain = config.ingest.domain
    return (*config.webhooks.own_names, *((domain, f".{domain}") if domain else ()))


def parse_destination(text: str, allowed: Allowed = NOTHING_MORE, own: Collection[str] = ()) -> URL:
    """Check the words of a destination. Raises BadDestination; `own`: as of `own_names_of`.

    Whether its name leads to a public address is judged at each connection.
    """
    from yarl import URL  # noqa: PLC0415 - most verbs of the command line load none of it

    if len(text) > ADDRESS_MOST:
        raise BadDestination(f"the address has over {ADDRESS_MOST} characters")
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        raise BadDestination(f"not an address: {error}") from None
    if url.scheme != "https" and not (allowed.http and url.scheme == "http"):
        raise BadDestination("write an address that begins with https://")
    if url.user is not None or url.password is not None:
        raise BadDestination("leave user and password out: headers of the service may carry them")
    if url.fragment:
        raise BadDestination("leave the part behind # out: it is never sent")
    if port not in PORTS | allowed.ports:
        listed = ", ".join(map(str, sorted(PORTS | allowed.ports)))
        raise BadDestination(f"port {port} is not served: use one of {listed}")
    _check_host(url.raw_host or "", allowed, own)
    return url


def _check_host(host: str, allowed: Allowed, own: Collection[str]) -> None:
    name = host.lower().removesuffix(".")
    if not name:
        raise BadDestination("the address names no host")
    if name in own or any(each[0] == "." and name.endswith(each) for each in own):
        raise BadDestination(f"{name} is this service itself")
    try:
        literal = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        _check_name(name, allowed)
    else:
        if not any(_holds(network, literal) for network in allowed.networks):
            raise BadDestination("write the host's name: an IP address is not served")


def _check_name(name: str, allowed: Allowed) -> None:
    if _NUMERIC.fullmatch(name):
        raise BadDestination("write the host's name: an IP address is not served")
    if not _NAME.fullmatch(name):
        raise BadDestination(f"{name[:80]!r} is no name of a host")
    if "." not in name and not allowed.networks:
        raise BadDestination(f"{name} is no name of the public internet")


def check_headers(headers: Mapping[str, str]) -> None:
    """Check the headers that an account adds to its deliveries. Raises BadDestination."""
    if len(headers) > HEADERS_MOST:
        raise BadDestination(f"{len(headers)} headers are too many: at most {HEADERS_MOST}")
    if sum(map(len, [*headers, *headers.values()])) > HEADERS_CHARACTERS:
        raise BadDestination(f"the headers have over {HEADERS_CHARACTERS} characters together")
    if len({name.lower() for name in headers}) < len(headers):
        raise BadDestination("a header is there twice: upper and lower case are the same")
    for name, value in headers.items():
        if _OURS.fullmatch(name):
            raise BadDestination(f"the header {name} is ours: leave it out")
        if not is_header(name, value):
            raise BadDestination(
                f"the header {name[:40]!r} cannot be sent: a name is a word of at most 100 letters,"
                " digits and hyphens, a value printable ASCII without blanks around it"
            )


def is_header(name: str, value: str) -> bool:
    """Whether an account's header is sent: well formed, and not one that we send."""
    return bool(
        _FIELD_NAME.fullmatch(name) and _FIELD_VALUE.fullmatch(value) and not _OURS.fullmatch(name)
    )


def is_public(text: str, allowed: Allowed = NOTHING_MORE) -> bool:
    """Judge an address that a socket is about to be connected to: IPv4, or IPv6 with any zone."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if any(_holds(network, address) for network in allowed.networks):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _SPECIAL_4)
    return address in _GLOBAL_6 and not any(address in block for block in _SPECIAL_6)


def _holds(network: Network, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether the address is in the network, also where IPv6 writes an IPv4 address (::ffff:…)."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address in network or (mapped is not None and mapped in network)


@dataclass(frozen=True, slots=True)
class Guard:
    """Makes the sockets of deliveries, as aiohttp's `socket_factory`: none to a private network.

    A connector with a guard serves one account's destinations, or none that allows more.
    """

    allowed: Allowed = NOTHING_MORE

    def __call__(self, info: tuple[Any, ...]) -> socket.socket:
        """Make a socket for an address as getaddrinfo gives it. Raises Forbidden."""
        family, kind, protocol, _, address = info
        if not is_public(str(address[0]), self.allowed):
            raise Forbidden
        return socket.socket(family, kind, protocol)
