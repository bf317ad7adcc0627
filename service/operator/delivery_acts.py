"""Acts on deliveries: people have one, or all that a filter means, resent or cancelled.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pymongo import ASCENDING, ReturnDocument
from pymongo.collection import Collection

from service.operator.audit import Operator, recorded
from service.operator.connections import Collections
from service.operator.deliveries import (
    CANCELS,
    RESENDS,
    Delivery,
    DeliveryState,
    EventName,
    Which,
    asked_of,
    one,
)
from service.operator.producer import wake_fillers
from service.operator.services import Services
from service.worker.deliveries.body import KEEP_DAYS
from service.worker.deliveries.delivery import FINAL, delivery_in, document_of
from service.worker.deliveries.purging import RELAYED_DAYS
from service.worker.deliveries.service import ServiceState
from service.worker.results.database import Document
from service.worker.results.document import stored_now
from tracking.errors import NotDone
from tracking.request import Account

BATCH_SIZE = 500
TRIES = 5
"""An attempt changes a delivery once in seconds at most: more changes in a row are a defect."""

RESTLESS = "{} changes all the time: try again in a moment"
GONE = "its body is not kept any more: nobody can send it again"

FAILURES_MOST = 100

BY_HAND = "by_hand"
"""Why a delivery is over that somebody cancelled."""


@dataclass(slots=True)
class Acted:
    """On how many deliveries an act was done, and by id why not on others, FAILURES_MOST at most.

    `behind` names the last one that was looked at, None where no more are meant.
    """

    done: int = 0
    failed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    behind: tuple[dt.datetime, str] | None = None

    def refuse(self, delivery: Delivery, why: str) -> None:
        """Count one on which it was not done."""
        self.failed += 1
        if len(self.failures) < FAILURES_MOST:
            self.failures[delivery.id] = why


def resend(services: Services, who: Operator, account: Account, identity: str) -> Delivery:
    """Have one sent now, with a new round where its last one is over.

    Raises UnknownDelivery, NotDone, PyMongoError.
    """
    stores, target = services.stores, {"account": account, "delivery": identity}
    with recorded(stores.audit, who, "delivery resend", target):
        for _ in range(TRIES):
            delivery = one(stores, account, identity)
            refused = refusals(stores, [delivery])
            if delivery.id in refused:
                raise NotDone(refused[delivery.id])
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


def cancel(services: Services, who: Operator, account: Account, identity: str) -> Delivery:
    """Have one never sent again. Raises UnknownDelivery, NotDone, PyMongoError."""
    stores, target = services.stores, {"account": account, "delivery": identity}
    with recorded(stores.audit, who, "delivery cancel", target):
        for _ in range(TRIES):
            delivery = one(stores, account, identity)
            if delivery.state is DeliveryState.CANCELLED:
                return delivery
            if delivery.state in FINAL:
                raise NotDone(_ended(delivery))
            over = replace(
                delivery, state=DeliveryState.CANCELLED, why=BY_HAND, ended_at=stored_now()
            )
            if _changed(stores.deliveries, delivery, over):
                return over
    raise NotDone(RESTLESS.format(identity))


class _Act(NamedTuple):
    """An act on many: its name, those of which states it is for, and how a batch has it."""

    name: str
    states: Sequence[DeliveryState]
    on_batch: Callable[[Services, Sequence[Delivery], Acted], None]


def resend_all(
    services: Services, who: Operator, which: Which, seconds: float, most: int | None = None
) -> Acted:
    """Have all sent now that are meant, the oldest first: RESENDS, or those of one state.

    Stops after `most`, or after so many seconds, at the end of a batch. Raises PyMongoError.
    """
    act = _Act("delivery resend", RESENDS, _resend_batch)
    return _act_on_all(services, who, act, which, (seconds, most))


def cancel_all(
    services: Services, who: Operator, which: Which, seconds: float, most: int | None = None
) -> Acted:
    """Have all that are meant never sent again: CANCELS, or those of one state; as `resend_all`."""
    act = _Act("delivery cancel", CANCELS, _cancel_batch)
    return _act_on_all(services, who, act, which, (seconds, most))


def _act_on_all(
    services: Services, who: Operator, act: _Act, which: Which, bounds: tuple[float, int | None]
) -> Acted:
    acted, (seconds, most) = Acted(), bounds
    ends = time.monotonic() + seconds
    with recorded(services.stores.audit, who, act.name, which.target()) as outcome:
        for batch in _batches(services.stores, act.states, which, most):
            act.on_batch(services, batch, acted)
            acted.behind = (batch[-1].made_at, batch[-1].id)
            if time.monotonic() >= ends:
                break
        else:
            looked = acted.done + acted.failed
            acted.behind = acted.behind if most is not None and looked >= most else None
        outcome |= {"done": acted.done, "failed": acted.failed}
    return acted


def stop_all(stores: Collections, wanted: Document, why: str) -> int:
    """Cancel what is open or held of some deliveries; tells how many. Raises PyMongoError."""
    standing = {"state": {"$in": [*map(str, CANCELS)]}}
    over = {"state": DeliveryState.CANCELLED.value, "why": why, "ended_at": stored_now()}
    return stores.deliveries.update_many(wanted | standing, {"$set": over}).modified_count


def _batches(
    stores: Collections, states: Sequence[DeliveryState], which: Which, most: int | None
) -> Iterator[list[Delivery]]:
    """Read those that are meant, each once: what follows the last one of a batch."""
    left, order = most, [("made_at", ASCENDING), ("_id", ASCENDING)]
    # What is noted from now on is not meant: a destination that fails would never let this end.
    until = which.until or stored_now()
    while left is None or left > 0:
        size = BATCH_SIZE if left is None else min(BATCH_SIZE, left)
        wanted = asked_of(stores, replace(which, until=until), ASCENDING, states)
        batch = list(map(delivery_in, stores.deliveries.find(wanted).sort(order).limit(size)))
        if not batch:
            return
        yield batch
        if len(batch) < size:
            return
        which = replace(which, behind=(batch[-1].made_at, batch[-1].id))
        left = None if left is None else left - len(batch)


def _resend_batch(services: Services, batch: Sequence[Delivery], acted: Acted) -> None:
    stores = services.stores
    refused = refusals(stores, batch)
    for each in batch:
        if each.id in refused:
            acted.refuse(each, refused[each.id])
    good = [each for each in batch if each.id not in refused]
    _keep_bodies(stores, good)
    for state in {each.state for each in good}:
        same = [each.id for each in good if each.state is state]
        wanted = {"_id": {"$in": same}, "state": state.value}
        # All of a batch in one command: each document is changed as it stands then.
        done = stores.deliveries.update_many(wanted, [{"$set": _due(state)}])
        acted.done += done.matched_count
    wake_fillers(services.config.beanstalkd.servers, {each.line for each in good})


def _cancel_batch(services: Services, batch: Sequence[Delivery], acted: Acted) -> None:
    for each in batch:
        if each.state in FINAL:
            acted.refuse(each, _ended(each))
    standing = [each.id for each in batch if each.state not in FINAL]
    acted.done += stop_all(services.stores, {"_id": {"$in": standing}}, BY_HAND)


def _ended(delivery: Delivery) -> str:
    has_arrived = delivery.state is DeliveryState.DELIVERED
    ended = "it has arrived" if has_arrived else f"it is {delivery.state}"
    return f"{ended}: nothing more is sent, so there is nothing to cancel"


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


def _changed(deliveries: Collection[Document], was: Delivery, to: Delivery) -> bool:
    """Change a delivery if it is still as it was: false where it is not."""
    before, after = document_of(was), document_of(to)
    same: dict[str, Any] = {name: before[name] for name in ("_id", "state", "round", "made")}
    change = {name: value for name, value in after.items() if before[name] != value}
    return bool(deliveries.update_one(same, {"$set": change}).matched_count)
