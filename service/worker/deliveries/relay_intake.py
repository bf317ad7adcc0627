"""The relay's intake makes an event and a delivery of each request that a door took.

=============================== ==================================================================
step                            what a worker that vanishes behind it leaves
=============================== ==================================================================
(the door puts a job)           the job
note values of `dedupe_header`  the job: the value that a request has noted stays its own
insert the events               the job: all is done once more, and ids say what is there already
insert the deliveries           the same
put requests for what couriers  the same; the ids of requests are made of parcel and minute
push (pushes.py)
delete the jobs                 deliveries that are due: the filler brings them in (filler.py)
=============================== ==================================================================

What a label stands for a process knows of active services. In any other case MongoDB is asked, as a
majority has it: a service may be younger than what this process knows, and `unknown` is for ever.

======================================== =========================================================
service                                  its delivery is
======================================== =========================================================
active                                   open
paused, disabled                         held
of an account that was removed, or is    completed, `account_removed`, `account_suspended`
suspended
deleted                                  completed, `service_deleted`
unknown                                  completed, `unknown_service`, of the service ""
any, where another request of the day    completed, `duplicate`
has the same value of `dedupe_header`
without a destination, as couriers' are  completed, `nowhere_to_go`
======================================== =========================================================
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pymongo import UpdateOne

from service.ports import Job
from service.worker.deliveries.delivery import Delivery, DeliveryState, delivery_id
from service.worker.deliveries.foreign_request import (
    ForeignRequest,
    decode_foreign,
    foreign_event,
)
from service.worker.deliveries.ingest_label import IngestLabel
from service.worker.deliveries.keeper import SERVICE_DELETED
from service.worker.deliveries.outbox import (
    BringIn,
    Inserted,
    Told,
    insert_deliveries,
    insert_events,
)
from service.worker.deliveries.pushes import Asking, Pushes
from service.worker.deliveries.service import (
    HOLDING,
    Service,
    ServiceState,
    ServiceType,
    service_in,
)
from service.worker.deliveries.store import majority
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.change import EventName
from service.worker.results.connection import CONFIRM_SECONDS, Batches, Store, patiently
from service.worker.results.database import Collections, Document, Refusal
from service.worker.results.document import stored_now
from service.worker.results.failure import faults_of
from tracking.errors import MalformedJob

ROOM = 64
"""Jobs that a process holds: 1.2 MiB each at most, and as much again while they are written."""

TOGETHER_BYTES = 4 << 20
"""Of what is written together; one more may begin within."""

HEAD_BYTES = 1_024
"""What a request counts for beside its body."""

SAME_FOR = dt.timedelta(days=1)
"""So long the same value of `dedupe_header` is the same request."""

ACCOUNT_REMOVED = "account_removed"
ACCOUNT_SUSPENDED = "account_suspended"
UNKNOWN_SERVICE = "unknown_service"
DUPLICATE = "duplicate"
NOWHERE_TO_GO = "nowhere_to_go"
"""Why a delivery is completed, beside SERVICE_DELETED."""

UNSTORABLE = "unstorable_request"
"""Why a job is recorded in `dead` that has its form."""

NEVER_FORGOTTEN = float("inf")
"""A request is about no parcel."""


class Meant(NamedTuple):
    """What a label stands for.

    `completed`: why nothing is delivered, "" where it is. `unreadable`: why this version cannot
    read the service.
    """

    service: Service | None = None
    completed: str = ""
    unreadable: str = ""


class Taken(NamedTuple):
    """What became of requests: their deliveries, and by id why some cannot be stored.

    `services`: those that MongoDB was asked for, and that take deliveries. `pushed`: by id what
    pushes of couriers ask for.
    """

    inserted: Inserted
    refused: Mapping[str, str]
    services: Sequence[Service]
    pushed: Mapping[str, Asking]


class RelaySteps(NamedTuple):
    """The two steps before a job is deleted; between them a worker may vanish."""

    events: Callable[[Collections, Sequence[Told]], Mapping[str, Refusal]] = insert_events
    deliveries: Callable[[Collections, Sequence[Told], Mapping[str, Refusal]], Inserted] = (
        insert_deliveries
    )


class RelayIntake:
    """Takes requests out of jobs of the tube `webhooks`. One per process."""

    def __init__(
        self,
        store: Store,
        known: Subscriptions,
        bring_in: BringIn,
        steps: RelaySteps,
        pushes: Pushes,
    ) -> None:
        self._store = store
        self._known = known
        self._bring_in = bring_in
        self._steps = steps
        self._pushes = pushes
        self._batches = Batches[ForeignRequest, Asking | str](self._take, TOGETHER_BYTES, _size)

    async def take(self, job: Job) -> None:
        """Store the request of a job, which may go then.

        Raises MalformedJob; ResultsDown, TubesDown: repeat it.
        """
        asking = await self._batches.submit(decode_foreign(job.body))
        if isinstance(asking, Asking):
            await self._pushes.ask(asking)
        elif asking:
            raise MalformedJob(UNSTORABLE, asking)

    async def _take(self, requests: list[ForeignRequest]) -> Sequence[Asking | str]:
        """Store requests; tells why one cannot be stored, else what a push asks for, or "".

        Raises ResultsDown.
        """
        known = {
            each.label: Meant(service)
            for each in requests
            if (service := self._known.active(each.label))
        }
        step = partial(take_requests, self._store, requests, known, self._steps, self._pushes)
        taken = await self._store.in_background(patiently, CONFIRM_SECONDS, step)
        if any(self._known.by_line(each.line) is None for each in taken.services):
            await self._known.learn()
        self._bring_in(taken.inserted.due)
        became = {**taken.pushed, **taken.refused}
        return [became.get(each.id, "") for each in requests]


def take_requests(
    stores: Collections,
    requests: Sequence[ForeignRequest],
    known: Mapping[IngestLabel, Meant],
    steps: RelaySteps,
    pushes: Pushes,
) -> Taken:
    """Insert the events and deliveries of requests; what is there stays. Raises PyMongoError.

    `known`: what is known of active services.
    """
    meant = {**known, **meant_by(stores, {each.label for each in requests} - known.keys())}
    refused = {each.id: why for each in requests if (why := meant[each.label].unreadable)}
    readable = [each for each in requests if each.id not in refused]
    doubles = _doubles(stores, [(each, meant[each.label].service) for each in readable])
    told = [_told(each, meant[each.label], is_double=each.id in doubles) for each in readable]
    if not told:
        return Taken(Inserted([], {}), refused, [], {})
    pushed = {
        each.id: pushes.judge(stores, service, each)
        for each in readable
        if (service := _pushed_to(meant[each.label])) and each.id not in doubles
    }
    for one in told:
        one.event.update({"push": pushed[one.change].document} if one.change in pushed else {})
    inserted = steps.deliveries(stores, told, steps.events(stores, told))
    refused |= {change: why for change, (_, why) in inserted.kept.items()}
    asked = [each for label, each in meant.items() if label not in known and not each.completed]
    return Taken(inserted, refused, [each.service for each in asked if each.service], pushed)


def meant_by(stores: Collections, labels: Iterable[IngestLabel]) -> dict[IngestLabel, Meant]:
    """Find what labels stand for, as a majority has it. Raises PyMongoError."""
    meant = dict.fromkeys(labels, Meant(completed=UNKNOWN_SERVICE))
    if not meant:
        return meant
    of_labels = {
        "account": {"$in": sorted({each.account for each in meant})},
        "name": {"$in": sorted({each.service for each in meant})},
        "ingest.random": {"$in": sorted({each.random for each in meant})},
    }
    for document in majority(stores.services).find(of_labels):
        label = IngestLabel(document["account"], document["name"], document["ingest"]["random"])
        if label in meant:
            meant[label] = _meant_by(document)
    stopped = {"removed_at": ACCOUNT_REMOVED, "suspended": ACCOUNT_SUSPENDED}
    wanted = {"_id": of_labels["account"], "$or": [{each: {"$exists": True}} for each in stopped]}
    for account in majority(stores.accounts).find(wanted, [*stopped]):
        why = next(why for member, why in stopped.items() if member in account)
        for label, each in meant.items():
            if label.account == account["_id"]:
                meant[label] = each._replace(completed=why)
    return meant


def _meant_by(document: Document) -> Meant:
    try:
        service = service_in(document)
    except (LookupError, TypeError, ValueError) as error:
        return Meant(unreadable=f"this version cannot read service {document['_id']}: {error!r}")
    deleted = service.state is ServiceState.DELETED
    return Meant(service, SERVICE_DELETED if deleted else "")


def _pushed_to(meant: Meant) -> Service | None:
    """The service to which a courier pushes."""
    is_courier = meant.service and meant.service.type is ServiceType.COURIER
    return meant.service if is_courier and not meant.completed else None


def _told(request: ForeignRequest, meant: Meant, *, is_double: bool) -> Told:
    """Make the event of a request, with its delivery."""
    service, why = meant.service, meant.completed
    if service and not why:
        why = DUPLICATE if is_double else "" if service.destination else NOWHERE_TO_GO
    state = DeliveryState.COMPLETED if why else DeliveryState.OPEN
    if service and not why and service.state in HOLDING:
        state = DeliveryState.HELD
    event, name = foreign_event(request, request.label.account), service.id if service else ""
    delivery = Delivery(
        id=delivery_id(request.id, EventName.RELAY_REQUEST, name),
        service=name,
        account=request.label.account,
        event=event["_id"],
        type=EventName.RELAY_REQUEST,
        made_at=request.received_at,
        next_at=request.received_at,
        state=state,
        why=why,
        ended_at=stored_now() if why else None,
    )
    return Told(request.id, event, [delivery], NEVER_FORGOTTEN)


def _doubles(
    stores: Collections, requests: Sequence[tuple[ForeignRequest, Service | None]]
) -> frozenset[str]:
    """Find the requests with a value that is another one's, by their ids. Raises PyMongoError.

    A value that nobody noted in the day before becomes the request's own.
    """
    named = [
        (f"{service.id}.{hashlib.sha256(value).hexdigest()}", request)
        for request, service in requests
        if service and (value := _value_of(request, service))
    ]
    if not named:
        return frozenset()
    notes = [UpdateOne({"_id": name}, _note(request), upsert=True) for name, request in named]
    faults_of(partial(stores.relay_values.bulk_write, notes, ordered=False))
    names = {"_id": {"$in": [name for name, _ in named]}}
    noted = {each["_id"]: each for each in majority(stores.relay_values).find(names)}
    return frozenset(
        request.id
        for name, request in named
        if (first := noted.get(name))
        and first["request"] != request.id
        and abs(first["at"] - request.received_at) < SAME_FOR
    )


def _value_of(request: ForeignRequest, service: Service) -> bytes:
    """Write the values of the service's `dedupe_header`; b"" where there is none."""
    name = service.ingest.dedupe_header
    return "\n".join(request.values(name)).encode("latin-1") if name else b""


def _note(request: ForeignRequest) -> list[Document]:
    """Make a value the request's own, where none of the day before has it."""
    own = {"request": request.id, "at": request.received_at, "until": stored_now() + SAME_FOR}
    is_free = {"$lt": ["$at", request.received_at - SAME_FOR]}  # as where there is no `at`
    return [{"$replaceWith": {"$cond": [is_free, {"_id": "$_id", **own}, "$$ROOT"]}}]


def _size(request: ForeignRequest) -> int:
    return len(request.body) + HEAD_BYTES
