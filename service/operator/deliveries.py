"""Deliveries for people: which are meant, listed, counted and shown with attempts and body.

What is done about them stands in delivery_acts.py.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pymongo import ASCENDING, DESCENDING

from service.operator.connections import Collections
from service.worker.deliveries.delivery import (
    Delivery,
    DeliveryState,
    attempt_id,
    delivery_in,
    number_in,
)
from service.worker.deliveries.foreign_request import REQUEST_BODY
from service.worker.deliveries.service import Format, ServiceType
from service.worker.results.change import EventName
from service.worker.results.database import Document
from tracking.errors import NotDone
from tracking.request import Account, account_and_id

__all__ = ["Delivery", "DeliveryState", "EventName"]

RESENDS = (DeliveryState.DEAD, DeliveryState.HELD)
CANCELS = (DeliveryState.OPEN, DeliveryState.HELD)
"""Of which states those are that are resent, or cancelled, where no state is named."""

NO_SERVICE = ""
"""Stands in deliveries that were completed because nobody knows the service."""

RARE_MOST = 1_000
"""Up to so many it is counted how many have a word."""

COUNTED_MOST = 10_001
"""More are counted by nobody: of a million it takes seconds."""


class UnknownDelivery(NotDone):
    """The account has no such delivery."""


@dataclass(frozen=True, slots=True)
class Which:
    """Which deliveries of an account are meant: those that agree with all that is given.

    `service` is the id of one. `since` and `until` bound when the event was noted. `behind`: only
    what follows this delivery in the order in which they are read. Of relayed requests alone:
    `status` of the last attempt, and `words` that each of them has.
    """

    account: Account
    service: str | None = None
    state: DeliveryState | None = None
    event: EventName | None = None
    parcel: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    behind: tuple[dt.datetime, str] | None = None
    status: int | None = None
    words: tuple[str, ...] = ()

    def asked(self, order: int, states: Sequence[DeliveryState] = ()) -> Document:
        """Ask for them; `states` where no state is given."""
        wanted: Document = {"account": self.account}
        named = {"service": self.service, "type": self.event, "parcel": self.parcel}
        wanted |= {name: str(value) for name, value in named.items() if value is not None}
        if self.state is not None or states:
            wanted["state"] = {"$in": [*map(str, (self.state,) if self.state else states)]}
        if self.status is not None:
            wanted["status"] = self.status
        if self.words:
            wanted["words"] = {"$all": [*self.words]}
        bounds = {"$gte": self.since, "$lt": self.until}
        if given := {how: at for how, at in bounds.items() if at is not None}:
            wanted["made_at"] = given
        if self.behind is not None:
            at, identity = self.behind
            how = "$lt" if order == DESCENDING else "$gt"
            same = {"made_at": at, "_id": {how: identity}}
            wanted["$or"] = [{"made_at": {how: at}}, same]
            # By this an index begins there: what a page has shown is not read for the next one.
            wanted.setdefault("made_at", {})[f"{how}e"] = at
        return wanted

    def target(self) -> Document:
        """Say what is meant, for the record of an act."""
        names = ("account", "service", "state", "event", "parcel", "since", "until", "status")
        given = [(name, getattr(self, name)) for name in names]
        return {
            name: str(each) if isinstance(each, StrEnum) else each
            for name, each in given
            if each is not None
        }


def deliveries_of(stores: Collections, which: Which, most: int) -> list[Delivery]:
    """List deliveries, those of the newest events first. Raises PyMongoError."""
    order = [("made_at", DESCENDING), ("_id", DESCENDING)]
    found = stores.deliveries.find(asked_of(stores, which, DESCENDING), {"words": 0})
    return list(map(delivery_in, found.sort(order).limit(most)))


def names_of_services(stores: Collections, deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """Find the names of their services by id, also of deleted ones. Raises PyMongoError.

    An id stands for the name of one that is not stored.
    """
    ids = sorted({each.service for each in deliveries})
    found = stores.services.find({"_id": {"$in": ids}}, {"name": 1})
    return {each: each for each in ids} | {each["_id"]: each["name"] for each in found}


def count_meant(
    stores: Collections, which: Which, states: Sequence[DeliveryState] = RESENDS
) -> int:
    """Count those on which an act would be done, COUNTED_MOST at most. Raises PyMongoError.

    `states`: for which the act is, where no state is named.
    """
    wanted = asked_of(stores, which, ASCENDING, states)
    reads = which.status is not None or which.words or which.parcel is not None
    if not reads and which.state is not DeliveryState.COMPLETED:
        # By own services and states an index says it alone: no delivery is read.
        wanted["service"] = {"$in": _own(stores, which)}
        del wanted["account"]
        if which.event is EventName.RELAY_REQUEST:
            del wanted["type"]
    return stores.deliveries.count_documents(wanted, limit=COUNTED_MOST)


def members(delivery: Delivery, service: str) -> dict[str, Any]:
    """Say what an account may know of a delivery; `service` is the name of its service."""
    return {
        "id": delivery.id,
        "service": service,
        "event": delivery.type.value,
        "event_id": delivery.event,
        "parcel": delivery.parcel or None,
        "operation": account_and_id(delivery.operation)[1] or None,
        "state": delivery.state.value,
        "why": delivery.why,
        "made": delivery.made,
        "round": delivery.round,
        "made_at": delivery.made_at,
        "next_at": delivery.next_at if delivery.state is DeliveryState.OPEN else None,
        "ended_at": delivery.ended_at,
    }


def show(stores: Collections, account: Account, identity: str) -> dict[str, Any]:
    """Say all that an account may know of one: its members, its body, its attempts.

    `body` is None where it is not kept any more; `attempts` are those of the last days, the first
    one first. Raises UnknownDelivery, PyMongoError.
    """
    delivery = one(stores, account, identity)
    service = stores.services.find_one({"_id": delivery.service}) or {}
    event = stores.events.find_one({"_id": delivery.event}) or {}
    bodies = event.get("bodies") or {}
    body = (
        bodies.get(service.get("format")) or bodies.get(Format.STANDARD) or bodies.get(REQUEST_BODY)
    )
    return members(delivery, service.get("name", delivery.service)) | {
        "body": None if body is None else _text_of(body),
        "attempts": attempts_of(stores, delivery),
    }


def attempts_of(stores: Collections, delivery: Delivery) -> list[dict[str, Any]]:
    """List its attempts of the last days: also one that is stored, and not counted yet."""
    ids = [attempt_id(delivery.id, number) for number in range(1, delivery.made + 2)]
    found = stores.attempts.find({"_id": {"$in": ids}}).sort("at")
    return list(map(_attempt_members, found))


def _attempt_members(row: Document) -> dict[str, Any]:
    return {
        "number": number_in(row["_id"]),
        "at": row["at"],
        "ms": round(row["ms"]),
        "status": row["status"],
        "failure": row["failure"],
        "headers": dict(row["headers"]),
        "body": _text_of(row["body"]),
    }


def _text_of(body: bytes) -> str:
    return bytes(body).decode("utf-8", "backslashreplace")


def asked_of(
    stores: Collections, which: Which, order: int, states: Sequence[DeliveryState] = ()
) -> Document:
    """Ask for those that are meant, by an index that holds little more than these."""
    wanted = which.asked(order, states)
    is_narrow = "state" in wanted and which.state is not DeliveryState.DELIVERED
    has_index = which.status is not None or bool(which.words)
    if which.service is not None and not has_index:
        wanted.setdefault("state", {"$in": [*map(str, DeliveryState)]})
    elif which.service is None and (is_narrow or has_index) and which.parcel is None:
        # By account alone they would be searched among all that were ever delivered.
        wanted["service"] = {"$in": [NO_SERVICE, *_own(stores, which)]}
    if len(which.words) > 1:
        wanted["words"] = {"$all": _rarest_first(stores, wanted, which.words)}
    return wanted


def _rarest_first(stores: Collections, wanted: Document, words: Sequence[str]) -> list[str]:
    """Order words: MongoDB reads all that has the first one, and looks there for the others."""
    of: Document = {name: wanted[name] for name in ("service", "type") if name in wanted}
    count = stores.deliveries.count_documents
    return sorted(words, key=lambda word: count({**of, "words": word}, limit=RARE_MOST))


def _own(stores: Collections, which: Which) -> list[str]:
    """List the services of the account to which what is meant may go."""
    of: Document = {"account": which.account}
    if which.event is EventName.RELAY_REQUEST:  # a few of many
        of["type"] = {"$in": [ServiceType.RELAY, ServiceType.COURIER]}
    if which.service is not None:
        of["_id"] = which.service
    return [each["_id"] for each in stores.services.find(of, {"_id": 1})]


def one(
    stores: Collections, account: Account, identity: str, event: EventName | None = None
) -> Delivery:
    """Find one, of any event or of this. Raises UnknownDelivery, PyMongoError."""
    wanted = {"_id": identity, "account": account} | ({"type": event.value} if event else {})
    found = stores.deliveries.find_one(wanted)
    if found is None:
        raise UnknownDelivery(f"there is no delivery {identity}")
    return delivery_in(found)
