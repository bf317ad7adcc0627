"""The inbox of an account: what other systems sent to its relays, looked at, edited and deleted.

A relayed request is a delivery (operator/deliveries.py): it is listed, resent and cancelled as any
delivery is. Here is what it has beside: the request itself, words by which it is found, an edited
copy of it, and its end on request.

A request is shown as it came: texts of its head hold a byte in each character (Latin-1).
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from service.config.schema import Config
from service.operator import deliveries, delivery_acts
from service.operator.audit import Operator, recorded
from service.operator.connections import Collections
from service.operator.deliveries import Delivery, EventName, UnknownDelivery, Which
from service.operator.delivery_acts import TRIES
from service.operator.forget import until_sent
from service.operator.producer import wake_fillers
from service.operator.services import BadWish, Services
from service.worker.deliveries.delivery import FINAL, document_of
from service.worker.deliveries.foreign_request import (
    BODY_MOST,
    FIELD_LINE,
    HEAD_MOST,
    METHOD_MOST,
    TCHAR,
    ForeignRequest,
    foreign_event,
    foreign_in,
    head_bytes,
    is_target,
    new_request_id,
)
from service.worker.deliveries.outbox import delivery_of
from service.worker.deliveries.purging import delete_parts
from service.worker.deliveries.service import service_in
from service.worker.deliveries.words import words_in
from service.worker.results.database import WITHOUT_WORDS, Document
from service.worker.results.document import stored_now
from tracking.errors import NotDone
from tracking.request import Account

__all__ = ["UnknownDelivery", "Which"]

SOUGHT_MOST = 16
"""Words of one search."""

DELETED = "deleted"
"""Why a delivery is over that is about to be deleted."""

_METHOD = re.compile(rf"(?!(?i:CONNECT|TRACE)\Z){TCHAR}{{1,{METHOD_MOST}}}")


class Edit(NamedTuple):
    """What is another of a request than it was; None is what stays.

    The same `key` makes one request of the same old one, "" another one each time.
    """

    method: str | None = None
    target: str | None = None
    headers: list[tuple[str, str]] | None = None
    body: bytes | None = None
    key: str = ""


class Page(NamedTuple):
    """Relayed requests, the newest first. `searched_until`: all before then have their words."""

    requests: list[dict[str, Any]]
    searched_until: dt.datetime


def sought(text: str) -> tuple[str, ...]:
    """Read what is searched for: its words. Raises BadWish."""
    words = tuple(words_in(text))
    if not 1 <= len(words) <= SOUGHT_MOST:
        why = f"name 1 to {SOUGHT_MOST} words, each of 2 letters or digits, or more"
        raise BadWish("words", why)
    return words


def inbox_of(stores: Collections, which: Which, most: int) -> Page:
    """List relayed requests, the newest first. Raises PyMongoError."""
    until = _searched_until(stores)
    found = deliveries.deliveries_of(stores, replace(which, event=EventName.RELAY_REQUEST), most)
    names = deliveries.names_of_services(stores, found)
    wanted = {"_id": {"$in": [each.event for each in found]}}
    heads = {each["_id"]: each for each in stores.events.find(wanted, _HEAD)}
    listed = [_members(each, names[each.service], heads.get(each.event, {})) for each in found]
    return Page(listed, until)


_HEAD = ("request.method", "request.url", "request.edited_from")


def _searched_until(stores: Collections) -> dt.datetime:
    """Tell up to when all requests that a worker took have their words. Raises PyMongoError."""
    now = stored_now()
    oldest = stores.deliveries.find_one(dict(WITHOUT_WORDS), {"made_at": 1}, sort=[("made_at", 1)])
    return min(now, oldest["made_at"]) if oldest else now


def _members(delivery: Delivery, service: str, event: Document) -> dict[str, Any]:
    """Say what a list says of a relayed request; of one that is not kept any more, less."""
    told, head = deliveries.members(delivery, service), event.get("request") or {}
    kept = ("id", "service", "state", "why", "made", "round", "next_at", "ended_at")
    return {
        **{name: told[name] for name in kept},
        "status": delivery.status,
        "received_at": delivery.made_at,
        **{name: head.get(name) for name in ("method", "url", "edited_from")},
    }


def show(stores: Collections, account: Account, identity: str) -> dict[str, Any]:
    """Say all of a relayed request: as it came, and with its attempts, the first one first.

    `body` is what it is as text (UTF-8), `body_base64` what is none; both None where it is not kept
    any more. Raises UnknownDelivery, PyMongoError.
    """
    delivery = deliveries.one(stores, account, identity, EventName.RELAY_REQUEST)
    names = deliveries.names_of_services(stores, [delivery])
    event = stores.events.find_one({"_id": delivery.event}) or {}
    told = _members(delivery, names[delivery.service], event)
    told |= {"target": None, "headers": [], "media_type": None, "body": None, "body_base64": None}
    told["push"] = event.get("push")
    if event:
        request = foreign_in(event)
        types = request.values("content-type")
        told |= {"target": request.target, "headers": list(map(list, request.headers))}
        told |= {"media_type": types[0] if types else None, **_body_members(request.body)}
    return told | {"attempts": deliveries.attempts_of(stores, delivery)}


def _body_members(body: bytes) -> Mapping[str, str]:
    try:
        return {"body": bytes(body).decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def resend(services: Services, who: Operator, account: Account, identity: str) -> Delivery:
    """Have a relayed request sent now, as `delivery_acts.resend` does."""
    deliveries.one(services.stores, account, identity, EventName.RELAY_REQUEST)
    return delivery_acts.resend(services, who, account, identity)


def edit(
    services: Services, who: Operator, account: Account, identity: str, wished: Edit
) -> Delivery:
    """Make a new request of an old one, and have it sent now; the old one stays as it is.

    Raises UnknownDelivery, BadWish, NotDone, PyMongoError.
    """
    stores, target = services.stores, {"account": account, "delivery": identity}
    with recorded(stores.audit, who, "inbox edit", target) as outcome:
        old = deliveries.one(stores, account, identity, EventName.RELAY_REQUEST)
        if why := delivery_acts.refusals(stores, [old]).get(old.id):
            raise NotDone(why)
        kept = stores.events.find_one({"_id": old.event})
        if kept is None:
            raise NotDone(delivery_acts.GONE)
        name = new_request_id()
        if wished.key:
            parts = f"{account}\n{identity}\n{wished.key}".encode()
            name = hashlib.sha256(parts).hexdigest()[: len(name)]
        request = replace(edited(foreign_in(kept), wished), id=name, received_at=stored_now())
        outcome["made"] = made = _insert(stores, request, old)
    wake_fillers(services.config.beanstalkd.servers, [old.line])
    return deliveries.one(stores, account, made)


def _insert(stores: Collections, request: ForeignRequest, old: Delivery) -> str:
    """Write event and delivery, unless they stand already. Raises NotDone, PyMongoError."""
    event = foreign_event(request, old.account)
    event["request"]["edited_from"] = old.id
    try:
        stores.events.insert_one(event)
    except DuplicateKeyError:
        event = stores.events.find_one({"_id": event["_id"]}) or event
        first = foreign_in(event)
        if replace(request, received_at=first.received_at) != first:
            raise NotDone("this Idempotency-Key made another request of it already") from None
    service = service_in(stores.services.find_one({"_id": old.service}) or {})
    made = delivery_of(request.id, event, service)
    with suppress(DuplicateKeyError):
        stores.deliveries.insert_one(document_of(made))
    return made.id


def edited(request: ForeignRequest, edit: Edit) -> ForeignRequest:
    """Make the request that was wished for, within the bounds of the door. Raises BadWish."""
    target = request.target if edit.target is None else edit.target
    headers = request.headers if edit.headers is None else tuple(edit.headers)
    made = replace(
        request,
        method=request.method if edit.method is None else edit.method,
        target=target,
        url=request.url.removesuffix(request.target) + target,
        headers=headers,
        body=request.body if edit.body is None else edit.body,
    )
    if not _METHOD.fullmatch(made.method):
        raise BadWish("method", "write a method like POST; CONNECT and TRACE are none of a relay")
    if not is_target(target):
        why = "begin with /, percent-encode blanks and letters, and write no part that is . or .."
        raise BadWish("target", f"write path and query as they are sent: {why}")
    for name, value in headers:
        if ":" in name or not FIELD_LINE.fullmatch(f"{name}: {value}"):
            raise BadWish("headers", f"{name[:80]!r} is no header that can be sent")
    if head_bytes(made.method, target, headers) > HEAD_MOST:
        raise BadWish("headers", f"target and headers have {HEAD_MOST} bytes at most")
    if len(made.body) > BODY_MOST:
        raise BadWish("body", f"a body has {BODY_MOST} bytes at most")
    return made


def delete(
    config: Config, stores: Collections, who: Operator, account: Account, identity: str
) -> None:
    """Delete a relayed request, with its body and its attempts; an open one is stopped first.

    An attempt that runs is waited for, as it stores how it ended. Raises UnknownDelivery, NotDone,
    LimitsDown, PyMongoError: repeat it.
    """
    target = {"account": account, "delivery": identity}
    with recorded(stores.audit, who, "inbox delete", target):
        for _ in range(TRIES):
            delivery = deliveries.one(stores, account, identity, EventName.RELAY_REQUEST)
            delivery_acts.stop_all(stores, {"_id": identity}, DELETED)
            until_sent(config, [delivery])
            over = {"_id": identity, "state": {"$in": [*map(str, FINAL)]}}
            found = stores.deliveries.find_one(over)
            if found is None:
                continue  # somebody sent it again
            delete_parts(stores, [found])
            if stores.deliveries.delete_one(over).deleted_count:
                return
    raise NotDone(f"{identity} is sent again and again: try again in a moment")
