"""Who asks, where a proxy stands in front: what of forwarded headers counts.

They count only where the connection comes from an address that `[http] trusted_proxies` names.
Everybody may send them, so from all others they say nothing.

====================== ===========================================================================
header                 says
====================== ===========================================================================
`X-Forwarded-For`      the client's address: the last one that is no trusted proxy's
`X-Forwarded-Proto`    the scheme by which the client came; the last one where there are several
`[http] user_header`   the e-mail of a user whom the proxy knows
====================== ===========================================================================
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from service.config.schema import Http

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Headers = CIMultiDict[str] | CIMultiDictProxy[str]


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks: the address, the scheme, and the e-mail that a proxy vouches for, or ""."""

    address: str
    scheme: str
    email: str = ""

    @property
    def is_private(self) -> bool:
        """Whether nobody reads what is sent on its way: by TLS, or within this machine."""
        found = _address(self.address)
        return self.scheme == "https" or (found is not None and found.is_loopback)


class Proxies:
    """Tells who asks, by what `[http]` says of the proxies in front."""

    def __init__(self, http: Http) -> None:
        self._trusted = tuple(map(ipaddress.ip_network, http.trusted_proxies))
        self._user_header = http.user_header

    def asking(self, request: web.Request) -> Asking:
        """Tell who asks."""
        plain = Asking(request.remote or "", request.scheme)
        return asking(plain, request.headers, self._trusted, self._user_header)


def asking(
    plain: Asking, headers: Headers, trusted: Sequence[Network], user_header: str = ""
) -> Asking:
    """Tell who asks by a connection: what `plain` says, unless a trusted proxy says more."""
    if not _is_trusted(plain.address, trusted):
        return plain
    scheme = _listed(headers, "X-Forwarded-Proto")[-1:]
    emails = headers.getall(user_header, []) if user_header else []
    return Asking(
        _client(plain.address, _listed(headers, "X-Forwarded-For"), trusted),
        scheme[0].lower() if scheme and scheme[0].lower() in {"http", "https"} else plain.scheme,
        # Two of them may come of two who wrote one: nobody is known then.
        emails[0].strip().lower() if len(emails) == 1 else "",
    )


def _client(address: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Walk back from the proxy that asks to the first address that is no proxy's."""
    for each in reversed(forwarded):
        found = _address(each)
        if found is None:
            return address  # what a proxy wrote here is no address: nobody knows who is behind it
        address = str(found)
        if not _is_trusted(address, trusted):
            return address
    return address


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    found = _address(address)
    return found is not None and any(found in network for network in trusted)


def _address(text: str) -> Address | None:
    """Read an address, also with a port behind it; None of what is none."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _listed(headers: Headers, name: str) -> list[str]:
    """List what headers of a name hold, several with commas in one, or several of it."""
    listed = (each.strip() for value in headers.getall(name, []) for each in value.split(","))
    return [each for each in listed if each]
