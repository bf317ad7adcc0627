"""Deliveries: an event on its way to one service, as the collection `deliveries` has it.

MongoDB is the truth; Redis holds at most the next thousand of a service (filler.py). A delivery's
id is its number on the service's line: to bring in one that waits or runs changes nothing.

========= ================================================= =======================================
state     meaning                                           ends as
========= ================================================= =======================================
open      is due at `next_at`, after `made` attempts        delivered, dead, held, cancelled
held      waits, because its service is paused or disabled  open once that is active; dead after
                                                            its days
delivered its receiver answered 2xx                         final
dead      its attempts, or its days, are over               final; open again by a resend
cancelled by hand, or nobody needs it any more              final; open again by a resend
completed was taken, and there is nowhere to deliver it     final
========= ================================================= =======================================

An attempt is number `made` + 1 of its delivery, over all rounds; a resend begins a new round, which
has all attempts of the service again. `made` - `round_from` of them are charged to the round. Each
change is one compare-and-set on (`round`, `made`).
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.worker.results.change import EventName
from tracking.line import Line, service_line
from tracking.request import Account, Number, Slug, TrackingRequest

ID_BYTES = 15

ROUND, MADE = "round", "made"
"""Fields of the request for a delivery: which attempt it was brought in for."""

PROBE = "probe"
"""A field of the request for one that is not due: a resting line is tried by it."""


class DeliveryState(StrEnum):
    """The state of a delivery: all but open and held ones are over."""

    OPEN = "open"
    HELD = "held"
    DELIVERED = "delivered"
    DEAD = "dead"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


FINAL = frozenset(DeliveryState) - {DeliveryState.OPEN, DeliveryState.HELD}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as it is stored.

    `round_from`: attempts that were made before this round began, and uncharged ones since then.

    `event` is the id of its event, in the collection `events`. `parcel` is `<slug>:<number>`, ""
    for an event of no parcel; `operation` the id of the operation that ended. `why`: the reason of
    its last failure, or of its end. `status`: of the answer to its last attempt, 0 where none came,
    None before the first.
    """

    id: str
    service: str
    account: Account
    event: str
    type: EventName
    made_at: dt.datetime
    next_at: dt.datetime
    parcel: str = ""
    operation: str = ""
    state: DeliveryState = DeliveryState.OPEN
    round: int = 1
    made: int = 0
    round_from: int = 0
    why: str = ""
    ended_at: dt.datetime | None = None
    status: int | None = None

    @property
    def line(self) -> Line:
        """The line on which it waits."""
        return service_line(self.service)

    def request(self, *, probe: bool = False) -> TrackingRequest:
        """Ask for its next attempt: the request that is brought in on its line."""
        number = Number(self.id)
        fields = {ROUND: str(self.round), MADE: str(self.made)} | ({PROBE: "1"} if probe else {})
        return TrackingRequest(Slug(self.line), number, number, fields=fields)

    @property
    def key(self) -> str:
        """The key of that request, which stands in for that of a job."""
        return f"{self.id}:{self.round}:{self.made}"


def digest(*parts: str) -> str:
    """Make the id of an event or of a delivery: 24 of A-Z and 2-7, the same for the same parts.

    The first part is a random id of 128 bits, so nobody can guess the result.
    """
    hashed = hashlib.sha256("\n".join(parts).encode()).digest()
    return base64.b32encode(hashed[:ID_BYTES]).decode()


def event_id(change: str, event: EventName) -> str:
    """Name an event by the random id of its change: noted twice, it is one event."""
    return digest(change, event)


def delivery_id(change: str, event: EventName, service: str) -> str:
    """Name a delivery: an event that is noted twice is delivered once."""
    return digest(change, event, service)


def attempt_id(delivery: str, number: int) -> str:
    """Name an attempt in the collection `attempts`: the first is number 1."""
    return f"{delivery}.{number}"


def number_in(attempt: str) -> int:
    """Tell which attempt of its delivery has this id."""
    return int(attempt.rpartition(".")[2])


def document_of(delivery: Delivery) -> dict[str, Any]:
    """Write a delivery as it is stored in `deliveries`."""
    return {
        "_id": delivery.id,
        "service": delivery.service,
        "account": delivery.account,
        "event": delivery.event,
        "type": delivery.type.value,
        "made_at": delivery.made_at,
        "next_at": delivery.next_at,
        "parcel": delivery.parcel,
        "operation": delivery.operation,
        "state": delivery.state.value,
        "round": delivery.round,
        "made": delivery.made,
        "round_from": delivery.round_from,
        "why": delivery.why,
        "ended_at": delivery.ended_at,
        "status": delivery.status,
    }


def delivery_in(document: Mapping[str, Any]) -> Delivery:
    """Read a document of `deliveries`. Raises KeyError, ValueError for what is none."""
    return Delivery(
        id=document["_id"],
        service=document["service"],
        account=Account(document["account"]),
        event=document["event"],
        type=EventName(document["type"]),
        made_at=document["made_at"],
        next_at=document["next_at"],
        parcel=document["parcel"],
        operation=document["operation"],
        state=DeliveryState(document["state"]),
        round=document["round"],
        made=document["made"],
        round_from=document["round_from"],
        why=document["why"],
        ended_at=document["ended_at"],
        status=document.get("status"),
    )
