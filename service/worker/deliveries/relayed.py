"""Relayed requests: how a foreign request is written again, byte for byte, for its destination.

================= ==================================================================================
of what came      is sent
================= ==================================================================================
method            as it came
target            behind the destination's path; `/` alone stands for that path itself. A query of
                  the destination comes first, then the request's, with & between
body              as it came, with its length
headers           as they came, in order, with repetition, in their case, but for those below
Host              the destination's, and first
Content-Length    of the body, behind the headers that came
END_AT_A_HOP      nothing, nor what the header Connection names
names that we add nothing of the sender's: nobody forges them, nor with `_` for `-`, which many
                  servers read as the same name; of a service's static headers the same
================= ==================================================================================

Behind them stand the service's static headers and ours. aiohttp would reorder headers, join what is
repeated, add its own and write bytes beyond ASCII as UTF-8: so the head is written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from yarl import URL

from limits.admin.operations import iso
from service.worker.deliveries.foreign_request import (
    END_AT_A_HOP,
    FIELD_LINE,
    TCHAR,
    ForeignRequest,
)

_OF_THE_HOP = END_AT_A_HOP | {"host", "content-length"}

_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Methods without a length where there is no body (RFC 9110, 8.6)."""

_REQUEST_LINE = re.compile(rf"{TCHAR}+ /[!-~\x80-\xff]* HTTP/1\.1")


def headers_about(
    foreign: ForeignRequest, signed: Mapping[str, str], attempt: int
) -> dict[str, str]:
    """Say what we add: about the request, and the headers that sign attempt number `attempt`."""
    said = {
        "relay-attempt": str(attempt),
        "relay-received-at": iso(foreign.received_at.timestamp() * 1000),
        "relay-original-url": foreign.url,
    }
    return said | {name.replace("webhook-", "relay-", 1): value for name, value in signed.items()}


def head_of(foreign: ForeignRequest, url: URL, added: Mapping[str, str]) -> bytes:
    """Write request line and headers for a destination, with those `added` behind.

    Raises ValueError for what would be another request, as a value with a line's end in it.
    """
    method, target = foreign.method, target_below(url, foreign.target)
    lines = [f"{name}: {value}" for name, value in _kept(foreign, added)]
    if foreign.body or method not in _BODILESS:
        lines.append(f"Content-Length: {len(foreign.body)}")
    lines += [f"{name}: {value}" for name, value in added.items()]
    first = f"{method} {target} HTTP/1.1"
    is_one = _REQUEST_LINE.fullmatch(first) and all(map(FIELD_LINE.fullmatch, lines))
    if not (is_one and foreign.target.startswith("/")):
        raise ValueError("a relayed request has a head that no request can have")
    head = [first, f"Host: {url.host_port_subcomponent}", *lines, "\r\n"]
    return "\r\n".join(head).encode("latin-1")


def target_below(url: URL, target: str) -> str:
    """Put a target, path and query, behind the path of a destination."""
    path, asks, query = target.partition("?")
    path = url.raw_path if path == "/" else url.raw_path.removesuffix("/") + path
    if own := url.raw_query_string:
        return f"{path}?{own}&{query}" if query else f"{path}?{own}"
    return path + asks + query


def _kept(foreign: ForeignRequest, added: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    named = (each for value in foreign.values("connection") for each in value.lower().split(","))
    dropped = _OF_THE_HOP.union(map(_as_read, map(str.strip, named)), map(_as_read, added))
    return (each for each in foreign.headers if _as_read(each[0]) not in dropped)


def _as_read(name: str) -> str:
    """Write a name as servers read it that hand it to programs as a variable."""
    return name.lower().replace("_", "-")
