"""Bodies of events: what is sent, word for word, to each service that wants an event.

The body is written once, with the event, in each format that a service of the account has. In the
format `standard` it is what Standard Webhooks recommends:

    {"type": "parcel.delivered", "timestamp": "2026-11-26T03:00:00.250Z", "data": {…}}

`data` has the names of `GET /v1/parcels/…` or `GET /v1/operations/…`. A body has at most BODY_MOST
bytes: of a longer one the oldest checkpoints are left out, then what is not essential, and it says
`"truncated": true`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec

from limits.admin.operations import iso
from service.worker.deliveries.aftership import shipment_of, update
from service.worker.deliveries.service import Format
from service.worker.results.change import EventName, Mark
from service.worker.results.database import Document
from tracking.request import Account, account_and_id

BODY_MOST = 256 * 1024
"""Bytes: what receivers' servers take, and 40 times what is usual."""

KEEP_DAYS = 60
"""How long a body is kept: a delivery is open for 7 days, held for 7, and may be resent for 30."""

_ESSENTIAL = frozenset(
    {
        "id",
        "slug",
        "number",
        "tracking_number",
        "status",
        "tag",
        "subtag",
        "delivered",
        "changed",
        "before",
        "test",
    }
)
TEXT_MOST = 4_096
"""Characters of what is left of an essential text, where a body is too long."""

_encode = msgspec.json.Encoder().encode


def standard(event: EventName, at: dt.datetime, data: Mapping[str, Any]) -> bytes:
    """Write a body in the format `standard`, cut to BODY_MOST bytes."""
    said = {"type": str(event), "timestamp": _plain(at), "data": _plain(data)}
    body = _encode(said)
    return body if len(body) <= BODY_MOST else _encode(said | {"data": _cut(said["data"])})


def aftership(name: str, mark: Mark, shipment: Mapping[str, Any] | None) -> bytes:
    """Write a change of a parcel in AfterShip's format, cut as the other one; `name`: its event."""
    named = {"slug": mark.slug, "number": mark.number, "at": mark.at}
    said = _plain(update(name, shipment_of(shipment, mark.after, named), mark.at))
    body = _encode(said)
    return body if len(body) <= BODY_MOST else _encode(said | {"msg": _cut(said["msg"])})


def parcel_data(mark: Mark) -> Mapping[str, Any]:
    """Tell of a change of a parcel: what it is now, what changed, and what that was before."""
    named = {"slug": mark.slug, "number": mark.number}
    return {**named, **mark.after, "changed": list(mark.changed), "before": mark.before}


def operation_data(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Tell of an operation that ended, by its document in `operations`."""
    repeated = document.get("resend_of")
    return {
        "id": account_and_id(document["id"])[1],
        "slug": document["slug"],
        "number": document["number"],
        "status": document["state"],
        "startedAt": document.get("started_at"),
        "finishedAt": document["finished_at"],
        "output": document.get("output"),
        **({"resendOf": account_and_id(repeated)[1]} if repeated else {}),
        "attempts": list(document.get("attempts") or ()),
    }


def event_document(
    *,
    name: str,
    account: Account,
    event: EventName,
    at: dt.datetime,
    bodies: Mapping[Format, bytes],
    **about: str,
) -> Document:
    """Make the document of an event.

    `about`: `parcel`, which is `<slug>:<number>`, and `operation`, as far as there are any.
    """
    parcel, operation = about.get("parcel", ""), about.get("operation", "")
    slug, _, number = parcel.partition(":")
    return {
        "_id": name,
        "account": account,
        "type": event.value,
        "at": at,
        "parcel": parcel,
        "slug": slug,
        "number": number,
        "operation": operation,
        "bodies": {each.value: body for each, body in bodies.items()},
        "until": at + dt.timedelta(days=KEEP_DAYS),
    }


def _plain(value: Any) -> Any:
    """Write instants as people's libraries read them; all else is JSON already."""
    if isinstance(value, dt.datetime):
        return iso(value.timestamp() * 1000)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _cut(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave the oldest checkpoints out until the rest fits; then all that is not essential."""
    said = {**data, "truncated": True}
    room = BODY_MOST - len(_encode({**said, "checkpoints": []})) - 1_024
    kept = list[Any]()
    for each in reversed(data.get("checkpoints") or ()):
        room -= len(_encode(each)) + 1
        if room < 0:
            break
        kept.insert(0, each)
    if "checkpoints" in data:
        said["checkpoints"] = kept
    if len(_encode(said)) <= BODY_MOST - 1_024:
        return said
    essential = {name: value for name, value in data.items() if name in _ESSENTIAL}
    texts = {name: each[:TEXT_MOST] for name, each in essential.items() if isinstance(each, str)}
    return essential | texts | {"truncated": True}
