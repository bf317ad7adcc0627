"""Deliveries for people: listed, shown with their attempts and their body, resent and cancelled.

MongoDB is the truth (deliveries/delivery.py), so each act changes a document there, if nothing else
changed it meanwhile. Redis hears of it by the filler, which a job wakes to bring in what is due; a
delivery that Redis still holds is looked at in MongoDB before it is sent.

========= ============================================= ==========================================
state     resend                                        cancel
========= ============================================= ==========================================
open      is due now                                    cancelled; what is being sent is not cut off
held      open, a new round                             cancelled
delivered open, a new round                             refused: it arrived
dead      open, a new round                             refused: nothing is sent any more
cancelled open, a new round                             changes nothing
completed open, a new round                             refused: nothing is sent any more
========= ============================================= ==========================================

A round has all attempts of the service. What has no body any more is not resent, nor what goes to a
service that is disabled or deleted, or has no destination.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pymongo import ASCENDING, DESCENDING, ReturnDocument
from pymongo.collection import Collection

from service.operator.audit import Operator, recorded
from service.operator.connections import Collections
from service.operator.producer import wake_fillers
from service.operator.services import Services
from service.worker.deliveries.body import KEEP_DAYS
from service.worker.deliveries.delivery import (
    FINAL,
    Delivery,
    DeliveryState,
    attempt_id,
    delivery_in,
    document_of,
    number_in,
)
from service.worker.deliveries.foreign_request import REQUEST_BODY
from service.worker.deliveries.purging import RELAYED_DAYS
from service.worker.deliveries.service import Format, ServiceState, ServiceType
from service.worker.results.change import EventName
from service.worker.results.database import Document
from service.worker.results.document import stored_now
from tracking.errors import NotDone
from tracking.request import Account, account_and_id

__all__ = ["Delivery", "DeliveryState", "EventName"]

BATCH_SIZE = 500
TRIES = 5
"""An attempt changes a delivery once in seconds at most: more changes in a row are a defect."""

FAILED = (DeliveryState.DEAD, DeliveryState.HELD)
"""What is resent where no state is named."""

NO_SERVICE = ""
"""Stands in deliveries that were completed because nobody knows the service."""

RESTLESS = "{} changes all the time: try again in a moment"
GONE = "its body is not kept any more: nobody can send it again"

RARE_MOST = 1_000
"""Up to so many it is counted how many have a word."""

FAILURES_MOST = 100
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


@dataclass(slots=True)
class Resent:
    """How many deliveries are due again, and by id why others are not, FAILURES_MOST at most.

    `behind` names the last one that was looked at, None where no more are meant.
    """

    done: int = 0
    failed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    behind: tuple[dt.datetime, str] | None = None

    def refuse(self, identity: str, why: str) -> None:
        """Count one that is not due again."""
        self.failed += 1
        if len(self.failures) < FAILURES_MOST:
            self.failures[identity] = why


def deliveries_of(stores: Collections, which: Which, most: int) -> list[Delivery]:
    """List deliveries, those of the newest events first. Raises PyMongoError."""
    order = [("made_at", DESCENDING), ("_id", DESCENDING)]
    found = stores.deliveries.find(_asked(stores, which, DESCENDING), {"words": 0})
    return list(map(delivery_in, found.sort(order).limit(most)))


def names_of_services(stores: Collections, deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """Find the names of their services by id, also of deleted ones. Raises PyMongoError.

    An id stands for the name of one that is not stored.
    """
    ids = sorted({each.service for each in deliveries})
    found = stores.services.find({"_id": {"$in": ids}}, {"name": 1})
    return {each: each for each in ids} | {each["_id"]: each["name"] for each in found}


def count_failed(stores: Collections, which: Which) -> int:
    """Count what `resend_all` would send, COUNTED_MOST at most. Raises PyMongoError."""
    wanted = _asked(stores, which, ASCENDING, FAILED)
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


def resend(services: Services, who: Operator, account: Account, identity: str) -> Delivery:
    """Have one sent now, with a new round where its last one is over.

    Raises UnknownDelivery, NotDone, PyMongoError.
    """
    stores, target = services.stores, {"account": account, "delivery": identity}
    with recorded(stores.audit, who, "delivery resend", target):
        for _ in range(TRIES):
            delivery = one(stores, account, identity)
            if why := refusals(stores, [delivery]).get(delivery.id):
                raise NotDone(why)
            _keep_bodies(stores, [delivery])
            due = stores.deliveries.find_one_and_update(
                {"_id": identity, "state": delivery.state.value},
                [{"$set": _due(delivery.state)}],
                return_document=ReturnDocument.AFTER,
            )
            if due is not None:
                wake_fillers(services.config.beanstalkd.servers, [delivery.line])
                return delivery_in(due)
    raise NotDone(RESTLESS.format(identity))


def cancel(stores: Collections, who: Operator, account: Account, identity: str) -> Delivery:
    """Have one never sent again. Raises UnknownDelivery, NotDone, PyMongoError."""
    target = {"account": account, "delivery": identity}
    with recorded(stores.audit, who, "delivery cancel", target):
        for _ in range(TRIES):
            delivery = one(stores, account, identity)
            if delivery.state is DeliveryState.CANCELLED:
                return delivery
            if delivery.state in FINAL:
                has_arrived = delivery.state is DeliveryState.DELIVERED
                ended = "it has arrived" if has_arrived else f"it is {delivery.state}"
                raise NotDone(f"{ended}: nothing more is sent, so there is nothing to cancel")
            over = replace(
                delivery, state=DeliveryState.CANCELLED, why="by_hand", ended_at=stored_now()
            )
            if _changed(stores.deliveries, delivery, over):
                return over
    raise NotDone(RESTLESS.format(identity))


def resend_all(
    services: Services, who: Operator, which: Which, seconds: float, most: int | None = None
) -> Resent:
    """Have all sent now that are meant, the oldest first: FAILED ones, or those of one state.

    Stops after `most`, or after so many seconds, at the end of a batch. Raises PyMongoError.
    """
    resent, stores, ends = Resent(), services.stores, time.monotonic() + seconds
    with recorded(stores.audit, who, "delivery resend", which.target()) as outcome:
        for batch in _batches(stores, which, most):
            _resend_batch(services, batch, resent)
            resent.behind = (batch[-1].made_at, batch[-1].id)
            if time.monotonic() >= ends:
                break
        else:
            looked = resent.done + resent.failed
            resent.behind = resent.behind if most is not None and looked >= most else None
        outcome |= {"done": resent.done, "failed": resent.failed}
    return resent


def stop_all(stores: Collections, wanted: Document, why: str) -> int:
    """Cancel what is open or held of some deliveries; tells how many. Raises PyMongoError."""
    standing = {"state": {"$in": [DeliveryState.OPEN.value, DeliveryState.HELD.value]}}
    over = {"state": DeliveryState.CANCELLED.value, "why": why, "ended_at": stored_now()}
    return stores.deliveries.update_many(wanted | standing, {"$set": over}).modified_count


def _asked(
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


def _batches(stores: Collections, which: Which, most: int | None) -> Iterator[list[Delivery]]:
    """Read those that are meant; what was resent is due now, and so it is not read again."""
    left, order = most, [("made_at", ASCENDING), ("_id", ASCENDING)]
    # What is noted from now on is not meant: a destination that fails would never let this end.
    until = which.until or stored_now()
    while left is None or left > 0:
        size = BATCH_SIZE if left is None else min(BATCH_SIZE, left)
        wanted = _asked(stores, replace(which, until=until), ASCENDING, FAILED)
        batch = list(map(delivery_in, stores.deliveries.find(wanted).sort(order).limit(size)))
        if not batch:
            return
        yield batch
        if len(batch) < size:
            return
        which = replace(which, behind=(batch[-1].made_at, batch[-1].id))
        left = None if left is None else left - len(batch)


def _resend_batch(services: Services, batch: Sequence[Delivery], resent: Resent) -> None:
    refused = refusals(services.stores, batch)
    for identity, why in refused.items():
        resent.refuse(identity, why)
    good = [each for each in batch if each.id not in refused]
    _keep_bodies(services.stores, good)
    for state in {each.state for each in good}:
        same = [each.id for each in good if each.state is state]
        wanted = {"_id": {"$in": same}, "state": state.value}
        # All of a batch in one command: each document is changed as it stands then.
        done = services.stores.deliveries.update_many(wanted, [{"$set": _due(state)}])
        resent.done += done.matched_count
    wake_fillers(services.config.beanstalkd.servers, {each.line for each in good})


def _due(state: DeliveryState) -> Document:
    """Make a delivery in this state due; of one that is open its round goes on."""
    if state is DeliveryState.OPEN:
        return {"next_at": stored_now()}
    return {
        "state": DeliveryState.OPEN.value,
        "round": {"$add": ["$round", 1]},
        "round_from": "$made",
        "next_at": stored_now(),
        "why": "",
        "ended_at": None,
    }


def refusals(stores: Collections, deliveries: Sequence[Delivery]) -> dict[str, str]:
    """Say by id which of them cannot be sent, and why."""
    ids = {"$in": sorted({each.service for each in deliveries})}
    services = {each["_id"]: each for each in stores.services.find({"_id": ids})}
    events = {"_id": {"$in": sorted({each.event for each in deliveries})}}
    kept = {each["_id"] for each in stores.events.find(events, {"_id": 1})}
    refused = {}
    for each in deliveries:
        service = services.get(each.service, {"state": ServiceState.DELETED, "name": each.service})
        if why := _SERVICE.get(service["state"], "").format(name=service["name"]):
            refused[each.id] = why
        elif not service.get("destination"):
            refused[each.id] = f"its service {service['name']} has no destination: set one first"
        elif each.event not in kept:
            refused[each.id] = GONE
    return refused


_SERVICE: Mapping[str, str] = {
    ServiceState.DELETED: "its service {name} is deleted: nothing is sent there any more",
    ServiceState.DISABLED: "its service {name} is disabled: make it active first, then resend",
}


def _keep_bodies(stores: Collections, deliveries: Sequence[Delivery]) -> None:
    """Let the bodies stay as long as what is sent may need them. Call it before the change."""
    events = {"_id": {"$in": sorted({each.event for each in deliveries})}}
    if deliveries:
        is_relayed = any(each.type is EventName.RELAY_REQUEST for each in deliveries)
        days = RELAYED_DAYS if is_relayed else KEEP_DAYS
        until = stored_now() + dt.timedelta(days=days)
        stores.events.update_many(events, {"$max": {"until": until}})


def one(
    stores: Collections, account: Account, identity: str, event: EventName | None = None
) -> Delivery:
    """Find one, of any event or of this. Raises UnknownDelivery, PyMongoError."""
    wanted = {"_id": identity, "account": account} | ({"type": event.value} if event else {})
    found = stores.deliveries.find_one(wanted)
    if found is None:
        raise UnknownDelivery(f"there is no delivery {identity}")
    return delivery_in(found)


def _changed(deliveries: Collection[Document], was: Delivery, to: Delivery) -> bool:
    """Change a delivery if it is still as it was: false where it is not."""
    before, after = document_of(was), document_of(to)
    same: dict[str, Any] = {name: before[name] for name in ("_id", "state", "round", "made")}
    change = {name: value for name, value in after.items() if before[name] != value}
    return bool(deliveries.update_one(same, {"$set": change}).matched_count)
