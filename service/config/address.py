"""Addresses of servers: taken apart, checked, and shown without their passwords."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from couriers.http.redaction import MASK
from service.config.paths import SECRET_TEXT, Path, is_credential
from service.config.schema import Config

_USERINFO = re.compile(r"(://[^/?#]*?:)(.*)(@)")
_PASSWORD_OPTION = re.compile(r"([?&]password=)([^&#]*)", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[([0-9A-Fa-f:.]+)\])(?::\d*)?")
"""A name in ASCII, an IPv4 or an IPv6 address: what an HTTP client takes without guessing."""
_LOGIN = re.compile(r"([^@:%]|%[0-9A-Fa-f]{2})+(:([^@:%]|%[0-9A-Fa-f]{2})*)?")


class BadAddress(ValueError):
    """An address that cannot be meant; `expected` and `fix` are for the person who wrote it."""

    def __init__(self, expected: str, fix: str) -> None:
        super().__init__(f"expected {expected}. {fix}")
        self.expected = expected
        self.fix = fix


def masked(address: str) -> str:
    """Replace the passwords in an address, so that it can be shown."""
    shown = _USERINFO.sub(rf"\1{MASK}\3", address)
    return _PASSWORD_OPTION.sub(rf"\1{MASK}", shown)


def passwords_of(address: str) -> frozenset[str]:
    """Find the passwords in an address, as written and percent-decoded."""
    found = [match[2] for match in _USERINFO.finditer(address)]
    found += [match[2] for match in _PASSWORD_OPTION.finditer(address)]
    return frozenset(text for each in found for text in (each, unquote(each)) if text)


def host_and_port(text: str, fallback: int | None = None) -> tuple[str, int]:
    """Take `host:port` or `[v6]:port` apart. Raises BadAddress; the port is 1 to 65535."""
    wanted = BadAddress("host:port", 'Write it like "127.0.0.1:11300" or "[::1]:11300".')
    try:
        split = urlsplit(f"//{text}")
        port = split.port or fallback
    except ValueError:
        raise wanted from None
    plain = not (split.path or split.query or split.fragment or "@" in text)
    bare_v6 = text.count(":") > 1 and not text.startswith("[")
    if not split.hostname or not port or not plain or bare_v6 or any(map(str.isspace, text)):
        raise wanted
    return split.hostname, port


def is_loopback(listen: str) -> bool:
    """Tell whether only programs of this machine reach `host:port`."""
    host, _ = host_and_port(listen)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_redis(url: str) -> None:
    """Refuse what redis-py would not connect to, and a Cluster. Raises BadAddress."""
    wanted = "redis://, rediss:// or unix://"
    split = _split(url, wanted)
    if "cluster" in split.scheme or "," in split.netloc:
        raise BadAddress(
            "one standalone Redis",
            "A Redis Cluster cannot run one script over several keys: set redis.url to a server of "
            "its own, or use Sentinels with redis.sentinels and redis.service.",
        )
    if "sentinel" in split.scheme:
        fix = 'List them in redis.sentinels = ["host:26379"] and name redis.service.'
        raise BadAddress(wanted, fix)
    if split.scheme == "unix":
        if not split.path:
            raise BadAddress("a path", 'Write it like "unix:///run/redis.sock?db=0".')
        return
    if split.scheme not in {"redis", "rediss"} or not split.hostname:
        raise BadAddress(wanted, 'Write it like "redis://127.0.0.1:6379/0".')
    database = split.path.strip("/")
    if database and not database.isdecimal():
        raise BadAddress("the number of a database", "Write it like redis://host:6379/0.")


def check_mongodb(uri: str) -> None:
    """Refuse the usual slips, before the driver refuses them and all others. Raises BadAddress."""
    found = re.fullmatch(r"mongodb(\+srv)?://([^/?\s]+)([/?].*)?", uri)
    if not found:
        fix = 'Write it like "mongodb://127.0.0.1:27017".'
        raise BadAddress("mongodb:// or mongodb+srv:// and a host", fix)
    login, at, hosts = found[2].rpartition("@")
    fix = "Write signs like @ : / % of user name and password as %40 %3A %2F %25."
    if at and not _LOGIN.fullmatch(login):
        raise BadAddress("mongodb://USER:PASSWORD@HOST", fix)
    for host in hosts.split(","):
        try:
            host_and_port(host, None if host.endswith(":") else 27017)
        except BadAddress:
            raise BadAddress("HOST:PORT in mongodb.uri, with a port of 1 to 65535", fix) from None


def check_http(url: str) -> None:
    """Refuse what couriers could not be asked at. Raises BadAddress."""
    wanted = "http:// or https:// and a host"
    split = _split(url, wanted)
    if split.username is not None or split.query or split.fragment:
        fix = "Put credentials into their own keys, and leave ? and # out."
        raise BadAddress("an address without user, query or fragment", fix)
    if split.scheme not in {"http", "https"} or not _is_host(split.netloc) or split.port == 0:
        raise BadAddress(wanted, 'Write it like "https://api.example.com".')


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    try:
        if found and found[2]:
            IPv6Address(found[2])
        elif found:
            found[1].encode("ascii").decode("idna")
    except ValueError:
        return False
    return bool(found)


def _split(url: str, wanted: str) -> SplitResult:
    try:
        split = urlsplit(url)
        _ = split.port  # read for its check
    except ValueError:
        if "," in url:
            return urlsplit(url)
        fix = "Write the host as HOST or HOST:PORT, IPv6 as [::1]:PORT, ports from 1 to 65535."
        raise BadAddress(wanted, fix) from None
    return split


SHORTEST = 4
"""Shorter "secrets" are words of everyday text; taking them out would make a log unreadable."""


def secrets_of(config: Config) -> frozenset[str]:
    """Every text that must not appear anywhere: credentials, and passwords in addresses."""
    found = set(passwords_of(config.redis.url) | passwords_of(config.mongodb.uri))
    found.add(config.redis.sentinel_password)
    found.update(config.webhooks.keys.split())
    found.add(config.mail.password)
    for courier in config.couriers.values():
        found.update(courier.credentials.values())
    return frozenset(text for text in found if len(text) >= SHORTEST)


def masked_value(path: Path, value: Any) -> Any:
    """Mask what must not be shown of a value."""
    if path in SECRET_TEXT:
        return masked(str(value))
    if is_credential(path):
        return MASK if value else ""
    return value
