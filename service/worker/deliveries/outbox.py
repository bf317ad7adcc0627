"""The outbox turns marks of changes into events and deliveries, and only then takes the marks away.

======================= ===========================================================================
step                    what a process that vanishes behind it leaves
======================= ===========================================================================
(the change is written) its mark, in the same document: a sweep finds it
insert the events       the mark: all is done once more, and ids say what is there already
insert the deliveries   the same
take the marks away     deliveries that are due: the filler brings them in (filler.py)
bring the deliveries in nothing
======================= ===========================================================================

Of what a writer of this process marked the outbox tells at once; what others left, or what came
while MongoDB was away, a sweep finds over a partial index. A change of which nobody wants to hear
loses its mark, and nothing else is written.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pymongo import UpdateOne
from pymongo.collection import Collection

from service.observe.background import rest
from service.worker.deliveries import body
from service.worker.deliveries.delivery import (
    Delivery,
    DeliveryState,
    delivery_id,
    document_of,
    event_id,
)
from service.worker.deliveries.health import takes_new
from service.worker.deliveries.service import HOLDING, Format, Service
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.change import EventName, Mark, marks_in
from service.worker.results.connection import CONFIRM_SECONDS, NEVER, Marks, Store, patiently
from service.worker.results.database import (
    EPOCH,
    UNTOLD,
    Collections,
    Document,
    Refusal,
    log_refused,
)
from service.worker.results.document import document_id
from service.worker.results.failure import faults_of
from tracking.checkpoint import Tag
from tracking.errors import ResultsDown
from tracking.request import Account

TOGETHER_MOST = 100
"""Marks of one go."""

WAITING_MOST = 10_000
"""Marks that a process holds until it has told of them; of more the sweep tells."""

SWEEP_SECONDS = 30.0
LEFT_SECONDS = 10.0
"""So old a mark is when the process that wrote it has not told of it: it vanished, or cannot."""

AGAIN_SECONDS = 1.0
"""How soon it is tried again where MongoDB is away."""

BringIn = Callable[[Sequence[Delivery]], None]
"""Has the filler bring new deliveries onto the lines of their services, those that may be."""


class Told(NamedTuple):
    """An event with its deliveries, to be inserted.

    `asked_us`: when the courier was asked, or the request came; what was forgotten since is not
    told. `change` names what it is about: its mark, or its operation.
    """

    change: str
    event: Document
    deliveries: Sequence[Delivery]
    asked_us: float


class Inserted(NamedTuple):
    """What became of what was to be inserted.

    `due`: new deliveries that are open, to be brought in. `kept`: changes that are still untold, as
    MongoDB refuses documents of theirs, by the reasons.
    """

    due: list[Delivery]
    kept: Mapping[str, Refusal]


class Steps(NamedTuple):
    """The two steps that tell of a change; between them a worker may vanish."""

    insert: Callable[[Collections, Sequence[Told]], Inserted]
    pull: Callable[[Collection[Document], Iterable[Mark]], None]


class Outbox:
    """Tells of changes, until it is cancelled. One per process; implements `Changes`."""

    def __init__(
        self, store: Store, known: Subscriptions, bring_in: BringIn, steps: Steps | None = None
    ) -> None:
        self._store = store
        self._known = known
        self.hears = known.hears
        """Whether changes of an account's parcels are marked: each stored answer asks."""
        self._bring_in = bring_in
        self._steps = steps or Steps(insert, pull)
        self._waiting: deque[Mark] = deque(maxlen=WAITING_MOST)
        self._noted = asyncio.Event()

    def note(self, marks: Sequence[Mark]) -> None:
        """Have these marks told; a majority has their documents."""
        self._waiting.extend(marks)
        self._noted.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._again_and_again(self._tell_noted))
            both.create_task(self._again_and_again(self._sweep_later))

    async def sweep(self) -> int:
        """Tell of marks that somebody left; returns how many. Raises ResultsDown."""
        before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=LEFT_SECONDS)
        tracking, count, told = self._store.tracking, 0, TOGETHER_MOST
        while told >= TOGETHER_MOST:
            found = await self._store.in_background(left_marks, tracking, before, TOGETHER_MOST)
            told = 0
            for at in range(0, len(found), TOGETHER_MOST):
                told += await self.tell(found[at : at + TOGETHER_MOST])
            count += told
        return count

    async def _again_and_again(self, step: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._store.available()
            try:
                await step()
            except ResultsDown:
                await asyncio.sleep(AGAIN_SECONDS)  # said elsewhere; the marks stand

    async def _sweep_later(self) -> None:
        await rest(SWEEP_SECONDS)
        await self.sweep()

    async def _tell_noted(self) -> None:
        await self._noted.wait()
        self._noted.clear()
        while self._waiting:
            most = min(TOGETHER_MOST, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(most)]
            try:
                await self.tell(batch)
            except ResultsDown:
                self.note(batch)
                raise

    async def tell(self, marks: Sequence[Mark]) -> int:
        """Tell of marks; returns of how many. Raises ResultsDown."""
        if not marks:
            return 0
        if not self._known.revision:
            await self._known.learn()
        followed = [(each, self._known.of(each.account)) for each in marks]
        tell = partial(tell_marks, self._store, followed, self._steps)
        inserted = await self._store.in_background(patiently, CONFIRM_SECONDS, tell)
        log_refused(self._store.events, inserted.kept.values())
        self._bring_in(inserted.due)
        return len(marks) - len(inserted.kept)


def tell_marks(
    stores: Collections, followed: Sequence[tuple[Mark, Sequence[Service]]], steps: Steps
) -> Inserted:
    """Tell of changes, then take their marks away. Raises PyMongoError: repeat it."""
    shipments = _shipments(stores, followed)
    told = [
        each
        for mark, services in followed
        for each in told_of(mark, services, shipments.get(mark.document))
    ]
    inserted = steps.insert(stores, told)
    steps.pull(stores.tracking, [mark for mark, _ in followed if mark.id not in inserted.kept])
    return inserted


def told_of(
    mark: Mark, services: Sequence[Service], shipment: Mapping[str, Any] | None = None
) -> list[Told]:
    """Make the events of a change that somebody wants to hear of, with their deliveries.

    `shipment`: what the account says of the parcel, for AfterShip's format.
    """
    told: list[Told] = []
    for event in mark.events:
        wanted = [each for each in services if _wants(each, event, mark)]
        if not wanted:
            continue
        name = event_id(mark.id, event)
        bodies = {Format.STANDARD: body.standard(event, mark.at, body.parcel_data(mark))}
        if any(each.format is Format.AFTERSHIP for each in wanted):
            bodies[Format.AFTERSHIP] = body.aftership(name, mark, shipment)
        document = body.event_document(
            name=name,
            account=mark.account,
            event=event,
            at=mark.at,
            bodies=bodies,
            parcel=f"{mark.slug}:{mark.number}",
        )
        deliveries = [delivery_of(mark.id, document, each) for each in wanted]
        asked_us = mark.after["updated_at"].timestamp() * 1_000_000
        told.append(Told(mark.id, document, deliveries, asked_us))
    return told


def _wants(service: Service, event: EventName, mark: Mark) -> bool:
    """Whether a service is to hear of an event; of AfterShip's there is one for each change."""
    tag, wanted = Tag(mark.after["tag"]), service.wanted
    if not wanted.takes(event, mark.slug, tag) or not takes_new(service, mark.at):
        return False
    changed = EventName.PARCEL_CHANGED
    is_second = event is not changed and wanted.takes(changed, mark.slug, tag)
    return service.format is not Format.AFTERSHIP or not is_second


def _shipments(
    stores: Collections, followed: Iterable[tuple[Mark, Sequence[Service]]]
) -> Mapping[str, Document]:
    """Find what accounts say of parcels, where a service wants AfterShip's format."""
    asked = [
        {"account": mark.account, "parcel": f"{mark.slug}:{mark.number}", "deleted": False}
        for mark, services in followed
        if any(each.format is Format.AFTERSHIP for each in services)
    ]
    found = stores.shipments.find({"$or": asked}) if asked else ()
    return {document_id(each["parcel"], Account(each["account"])): each for each in found}


def delivery_of(change: str, event: Document, service: Service) -> Delivery:
    """Make the delivery of an event to a service."""
    is_held = service.state in HOLDING
    return Delivery(
        id=delivery_id(change, EventName(event["type"]), service.id),
        service=service.id,
        account=service.account,
        event=event["_id"],
        type=EventName(event["type"]),
        made_at=event["at"],
        next_at=event["at"],
        parcel=event["parcel"],
        operation=event["operation"],
        state=DeliveryState.HELD if is_held else DeliveryState.OPEN,
    )


def insert(stores: Collections, told: Sequence[Told]) -> Inserted:
    """Insert events, then their deliveries; what is there already stays. Raises PyMongoError."""
    if not told:
        return Inserted([], {})
    return insert_deliveries(stores, told, insert_events(stores, told))


def insert_events(stores: Collections, told: Sequence[Told]) -> dict[str, Refusal]:
    """Insert events; gives those changes that MongoDB refuses. Raises PyMongoError."""
    events = [each.event for each in told]
    refused = faults_of(partial(stores.events.insert_many, events, ordered=False)).refused
    return {told[index].change: (events[index]["_id"], why) for index, why in refused.items()}


def insert_deliveries(
    stores: Collections, told: Sequence[Told], refused: Mapping[str, Refusal]
) -> Inserted:
    """Insert the deliveries of events that stand. Raises PyMongoError.

    Nobody hears of a parcel that was forgotten meanwhile.
    """
    kept = dict(refused)
    ready = [(each, one) for each in told if each.change not in kept for one in each.deliveries]
    documents = [document_of(delivery) for _, delivery in ready]
    known = set[int]()
    if documents:
        faults = faults_of(partial(stores.deliveries.insert_many, documents, ordered=False))
        known = set(faults.known)
        for index, why in faults.refused.items():
            kept[ready[index][0].change] = (documents[index]["_id"], why)
    gone = _withdraw(stores, told)
    spared = kept.keys() | gone
    due = [
        delivery
        for index, (each, delivery) in enumerate(ready)
        if index not in known and each.change not in spared and delivery.state is DeliveryState.OPEN
    ]
    return Inserted(due, kept)


def pull(tracking: Collection[Document], marks: Iterable[Mark]) -> None:
    """Take marks out of their documents, and the list with the last one. Raises PyMongoError."""
    ids: dict[str, list[str]] = {}
    for each in marks:
        ids.setdefault(each.document, []).append(each.id)
    if not ids:
        return
    pulled = [
        UpdateOne({"_id": name, f"{UNTOLD}.id": {"$in": those}}, _without(those))
        for name, those in ids.items()
    ]
    tracking.bulk_write(pulled, ordered=False)


def left_marks(tracking: Collection[Document], before: dt.datetime, most: int) -> list[Mark]:
    """List marks of documents with one from before an instant, of so many documents at most."""
    wanted = {f"{UNTOLD}.at": {"$gt": EPOCH, "$lt": before}}
    members = dict.fromkeys(("slug", "tracking_number", "account", UNTOLD), 1)
    left: list[Mark] = []
    for document in tracking.find(wanted, members, limit=most):
        try:
            left += marks_in(document)
        except (KeyError, TypeError, ValueError) as error:
            refused = (str(document["_id"]), f"this service did not write its marks: {error!r}")
            log_refused(tracking, [refused])
    return left


def _without(ids: Sequence[str]) -> list[Document]:
    """Leave marks out, in one step that a writer notices who has read the document before."""
    is_left = {"$not": [{"$in": ["$$this.id", {"$literal": list(ids)}]}]}
    left = {"$filter": {"input": f"${UNTOLD}", "cond": is_left}}
    none = {"$eq": [f"${UNTOLD}", []]}
    return [
        {"$set": {UNTOLD: left, "revision": {"$add": ["$revision", 1]}}},
        {"$set": {UNTOLD: {"$cond": [none, "$$REMOVE", f"${UNTOLD}"]}}},
    ]


def _withdraw(stores: Collections, told: Sequence[Told]) -> set[str]:
    """Delete what is about parcels that were forgotten since; returns the changes."""
    parcels = {each.event["parcel"] for each in told} - {""}
    forgotten = Marks(stores.forgotten).of(parcels) if parcels else {}
    gone = [each for each in told if each.asked_us <= forgotten.get(each.event["parcel"], NEVER)]
    if gone:
        named = {"$in": [each.event["_id"] for each in gone]}
        stores.deliveries.delete_many(
            {"_id": {"$in": [delivery.id for each in gone for delivery in each.deliveries]}}
        )
        stores.events.delete_many({"_id": named})
    return {each.change for each in gone}
