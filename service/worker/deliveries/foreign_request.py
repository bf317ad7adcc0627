"""Foreign requests: what another system sent to a relay, as the tube `webhooks` has it.

A job's body is one line of JSON, the head, then a newline, then the bytes of the request's body:

========== =====================================================================================
head       is
========== =====================================================================================
id         32 of 0-9 and a-f, random, made by the door: a job that is there twice is one request
label      the ingest label under which it came (ingest_label.py)
at         when the door had all of it, in whole milliseconds of Unix time
method     as it was sent
target     path and query behind the label, as they were sent, `/` at least
url        as the sender addressed it, for signatures over the address
headers    a list of [name, value], in order and with repetition, without what ends at this hop
========== =====================================================================================

Texts in the head hold a byte in each character (Latin-1), so that nothing of a header or of a path
is lost, whatever its encoding was.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from service.worker.deliveries.body import event_document
from service.worker.deliveries.delivery import event_id
from service.worker.deliveries.ingest_label import IngestLabel, parse_label
from service.worker.deliveries.purging import RELAYED_DAYS
from service.worker.results.change import EventName
from service.worker.results.database import Document
from service.worker.tubes import envelope
from tracking.errors import MalformedJob
from tracking.request import Account

WEBHOOKS_TUBE = envelope.WEBHOOKS_TUBE

REQUEST_BODY = "relay"
"""The body of the request among the bodies of its event; the member `request` has the head."""

BODY_MOST = 1 << 20
"""Bytes of a body."""

HEAD_MOST = 48 * 1024
"""Bytes of request line and headers, as they were sent."""

JOB_MOST = BODY_MOST + 192 * 1024
"""Bytes of a job: in JSON a byte takes two at most, and six of the few that are control codes."""

_ID = r"^[0-9a-f]{32}\Z"
TCHAR = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"
"""A character of a method and of a header's name; RFC 9110 calls it so."""

FIELD_LINE = re.compile(rf"{TCHAR}+: [\x01-\t\x0b\x0c\x0e-\xff]*")
"""A header as it is sent: what two lines would be is none."""

METHOD_MOST = 32
"""Characters of a method."""

_TARGET = re.compile(r"/[!\"$-~\x80-\xff]*")
"""What can be sent in a request's line: senders leave bytes unencoded that RFC 3986 has encoded."""

_SLASH, _DOT = r"(?:[/\\]|%2f|%5c)", r"(?:\.|%2e)"
_DOTS = re.compile(f"{_SLASH}{_DOT}{{1,2}}(?:{_SLASH}|;|$)", re.IGNORECASE)
"""A segment of dots alone, also where a server that takes the path apart would make it one."""

_ONE_BYTE = re.compile(r"[\x00-\xff]*")

END_AT_A_HOP = frozenset(
    {
        "connection",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are meant for the next server alone (RFC 9110, 7.6.1), in lower case."""


@dataclass(frozen=True, slots=True)
class ForeignRequest:
    """A request as another system sent it. Texts hold a byte in each character (Latin-1)."""

    id: str
    label: IngestLabel
    received_at: dt.datetime
    method: str
    target: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        """List the values of a header, in order; upper and lower case are the same."""
        wanted = name.lower()
        return [value for each, value in self.headers if each.lower() == wanted]


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(pattern=_ID)]
    label: str
    at: Annotated[int, Meta(ge=0, le=253_402_300_799_000)]
    method: Annotated[str, Meta(pattern=rf"^{TCHAR}{{1,{METHOD_MOST}}}\Z")]
    target: Annotated[str, Meta(min_length=1)]
    url: str
    headers: list[tuple[str, str]]


_read = msgspec.json.Decoder(_Head).decode
_write = msgspec.json.Encoder().encode


def new_request_id() -> str:
    """Make the id of a request that a door takes."""
    return secrets.token_hex(16)


def new_request_ids() -> Iterator[str]:
    """Make ids of requests, many by one question to the kernel; never ends."""
    while True:
        drawn = secrets.token_hex(16 * 256)
        yield from (drawn[at : at + 32] for at in range(0, len(drawn), 32))


def encode_foreign(request: ForeignRequest) -> bytes:
    """Write the body of a job of the tube `webhooks`."""
    head = _Head(
        request.id,
        str(request.label),
        round(request.received_at.timestamp() * 1000),
        request.method,
        request.target,
        request.url,
        list(request.headers),
    )
    return _write(head) + b"\n" + request.body


def decode_foreign(job: bytes) -> ForeignRequest:
    """Read the body of a job of the tube `webhooks`. Raises MalformedJob."""
    line, newline, body = job.partition(b"\n")
    if not newline:
        raise MalformedJob("bad_shape", "write the head as one line of JSON, then the body")
    try:
        head = _read(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedJob("bad_json", f"the head is not what it should be: {error}") from error
    label = parse_label(head.label)
    if label is None:
        raise MalformedJob("bad_shape", f"{head.label[:80]!r} is no ingest label")
    if not _is_bytes(head):
        raise MalformedJob("bad_shape", "a text of the head holds a character that is no byte")
    received_at = dt.datetime.fromtimestamp(head.at / 1000, dt.UTC)
    return ForeignRequest(
        id=head.id,
        label=label,
        received_at=received_at,
        method=head.method,
        target=head.target,
        url=head.url,
        headers=tuple(head.headers),
        body=body,
    )


def head_bytes(method: str, target: str, headers: Iterable[tuple[Sized, Sized]]) -> int:
    """Count the bytes that HEAD_MOST bounds; each header has a colon, a blank and a line's end."""
    return len(method) + len(target) + sum(len(name) + len(value) + 4 for name, value in headers)


def is_target(text: str) -> bool:
    """Whether path and query can be relayed: no segment of dots leads out of a destination."""
    return bool(_TARGET.fullmatch(text)) and not _DOTS.search(text.partition("?")[0])


def foreign_event(request: ForeignRequest, account: Account) -> Document:
    """Write the event of a request; made twice, it is one event."""
    event = event_document(
        name=event_id(request.id, EventName.RELAY_REQUEST),
        account=account,
        event=EventName.RELAY_REQUEST,
        at=request.received_at,
        bodies={},
    )
    head = {
        "id": request.id,
        "label": str(request.label),
        "method": request.method,
        "target": request.target,
        "url": request.url,
        "headers": [list(each) for each in request.headers],
    }
    until = request.received_at + dt.timedelta(days=RELAYED_DAYS)
    return event | {"bodies": {REQUEST_BODY: request.body}, "request": head, "until": until}


def foreign_in(event: Document) -> ForeignRequest:
    """Read the request of an event. Raises LookupError, ValueError for what is none."""
    head = event["request"]
    label = parse_label(head["label"])
    if label is None:
        raise ValueError(f"{head['label']!r} is no ingest label")
    return ForeignRequest(
        id=head["id"],
        label=label,
        received_at=event["at"],
        method=head["method"],
        target=head["target"],
        url=head["url"],
        headers=tuple((name, value) for name, value in head["headers"]),
        body=event["bodies"][REQUEST_BODY],
    )


def _is_bytes(head: _Head) -> bool:
    texts = [head.target, head.url, *(each for pair in head.headers for each in pair)]
    return all(_ONE_BYTE.fullmatch(each) for each in texts)
