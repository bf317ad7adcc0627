"""The keeper holds or cancels what no service takes any more, and bounds what an account has.

=============================== ==================================================================
service                         its deliveries
=============================== ==================================================================
paused, disabled                open ones are held, also those that join later
active after that               held ones are open again, due as they were
of an account with too many     the oldest of the service that has most are dead, held ones first
with held ones for too long     these are dead
deleted                         open and held ones are cancelled, also those that join later
=============================== ==================================================================

Every step is a compare-and-set on the state of a delivery, a few at a time, so two keepers at once
change nothing that one would not. The state of the service is read again before each of them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import string
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pymongo import ASCENDING
from pymongo.collection import Collection

from service.observe.events import Event
from service.observe.log import emit
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.foreign_request import BODY_MOST
from service.worker.deliveries.service import HOLDING, NOT_DELETED, ServiceState
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document

PERIOD_SECONDS = 5.0
COUNT_EVERY = 12
"""Looks between two counts of all that is open, which costs MongoDB a moment for each million."""

BATCH = 500
"""Deliveries of one step: MongoDB is busy with them for some ten milliseconds."""

CANCELLED_TOGETHER = 2_000
"""Of a service that somebody deletes just now, in one go: about 50 ms."""

HOLDS = DeliveryState.HELD.value
OPEN = DeliveryState.OPEN.value

TOO_MANY = "too_many_open"
HELD_TOO_LONG = "held_too_long"
SERVICE_DELETED = "service_deleted"
"""Why a delivery is over that no attempt ended."""

COUNTS = "deliveries"
"""The document of `alerts` with the newest count: `services`, their open and held deliveries."""

HEARD_SECONDS = 60.0
"""Every process has heard by then that the state of a service is another one."""

GIB = 1 << 30
LARGEST_BODY = BODY_MOST
"""Of an event, in bytes: of one of a relay."""

LETTERS = string.ascii_uppercase + "234567"
"""Of ids, which are random: one in a thousand begins with the same two letters."""


class Bounds(NamedTuple):
    """What an account may have open and held, and for how long a delivery is held."""

    open_most: int = 1_000_000
    gib_most: int = 10
    held_days: int = 30


class Keeper:
    """Keeps deliveries in step with the states of their services."""

    def __init__(
        self, store: Store, bounds: Bounds, changed: Callable[[], Awaitable[object]]
    ) -> None:
        """`changed` has all processes read the services again."""
        self._store = store
        self._bounds = bounds
        self._changed = changed
        self._announced: dict[str, dt.datetime | None] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self._looks = 0

    async def look(self) -> None:
        """Put right what is not as it should be. Raises ResultsDown."""
        await self._follow_states()
        if self._looks % COUNT_EVERY == 0:
            await self.count()
        self._looks += 1

    async def _follow_states(self) -> None:
        found = await self._store.in_background(out_of_step, self._store.services)
        await self._announce(found)
        for each in found:
            name, state = each["_id"], each["state"]
            if state in HOLDING:
                self._seen.pop(name, None)
                if not (each.get("health") or {}).get("holds"):
                    await self._store.in_background(note_holds, self._store.services, name)
                await self._move_all(name, {state}, OPEN, {"state": HOLDS})
            elif state == ServiceState.DELETED:
                change = end(DeliveryState.CANCELLED, SERVICE_DELETED, dt.datetime.now(dt.UTC))
                for waiting in (OPEN, HOLDS):
                    await self._move_all(name, {state}, waiting, change)
            else:
                await self._open_all(name, state)

    async def _announce(self, found: Iterable[Document]) -> None:
        """Have processes hear of those that were disabled: who disabled them may have vanished."""
        disabled = ServiceState.DISABLED
        now = {each["_id"]: each.get("disabled_at") for each in found if each["state"] == disabled}
        if now.items() - self._announced.items():
            await self._changed()
        self._announced = now

    async def _move_all(
        self, service: str, while_in: set[str], state: str, change: Mapping[str, Any]
    ) -> bool:
        """Change all deliveries of a service that are in a state; False: its own has changed."""
        return await self._each_batch(move_some, service, while_in, state, change)

    async def _open_all(self, service: str, state: str) -> None:
        """Open what is held; a process that has not heard of the change may add some."""
        opened = {"state": OPEN, "why": ""}
        all_open = await self._move_all(service, {state}, HOLDS, opened)
        if all_open and self._has_settled(service, state):
            now = dt.datetime.now(dt.UTC)
            await self._store.in_background(all_open_again, self._store.services, service, now)

    def _has_settled(self, service: str, state: str) -> bool:
        """Whether every process has heard by now that a service is in this state."""
        known, since = self._seen.get(service, ("", 0.0))
        if known != state:
            self._seen[service] = state, time.monotonic()
        elif time.monotonic() - since >= HEARD_SECONDS:
            del self._seen[service]
            return True
        return False

    async def _each_batch(self, step: Callable[..., int | None], service: str, *args: Any) -> bool:
        while True:
            began = time.monotonic()
            moved = await self._store.in_background(step, self._store, service, *args)
            if moved is None or moved < BATCH:
                return moved is not None
            await asyncio.sleep(time.monotonic() - began)  # others have their turn

    async def count(self) -> None:
        """Count what is open and held, and end what is too much. Raises ResultsDown."""
        now = dt.datetime.now(dt.UTC)
        counted: dict[str, Document] = {}
        accounts: dict[str, Counter[str]] = {}
        store = self._store
        for service, account in await store.in_background(all_services, store.services):
            counts = await store.in_background(open_and_held, store.deliveries, service)
            if any(counts):
                counted[service] = {"account": account, OPEN: counts[0], HOLDS: counts[1]}
                accounts.setdefault(account, Counter())[service] = sum(counts)
            if counts[1]:
                await self._end_old(service, now)
                await store.in_background(note_holds, store.services, service)
        for account, counts_of in accounts.items():
            await self._bound(account, counts_of, now)
        await store.in_background(keep_counts, store.alerts, counted)

    async def _end_old(self, service: str, now: dt.datetime) -> None:
        before = now - dt.timedelta(days=self._bounds.held_days)
        change = end(DeliveryState.DEAD, HELD_TOO_LONG, now)
        ended = await self._store.in_background(
            end_oldest, self._store.deliveries, service, BATCH, change, before
        )
        if ended:
            emit(Event.GIVEN_UP, service=service, deliveries=ended, why=HELD_TOO_LONG)

    async def _bound(self, account: str, counts: Counter[str], now: dt.datetime) -> None:
        store, most = self._store, self._bounds.open_most
        total = counts.total()
        bytes_most = self._bounds.gib_most * GIB
        size = await store.in_background(mean_bytes, store, account, total, bytes_most)
        excess = total - (min(most, int(bytes_most / size)) if size else most)
        given_up = 0
        change = end(DeliveryState.DEAD, TOO_MANY, now)
        while given_up < excess:
            [(fullest, _)] = counts.most_common(1)
            part = min(BATCH, excess - given_up)
            ended = await store.in_background(
                end_oldest, store.deliveries, fullest, part, change, None
            )
            counts[fullest] -= ended or counts[fullest]
            given_up += ended
            if not counts.total():
                break
        if given_up:
            emit(Event.GIVEN_UP, account=account, deliveries=given_up, why=TOO_MANY)
            await store.in_background(note_given_up, store.alerts, account, given_up, now)


def out_of_step(services: Collection[Document]) -> list[Document]:
    """List the services with deliveries that may be held, or are to be held or cancelled.

    Raises PyMongoError.
    """
    takes_none = {"$in": [*map(str, HOLDING), ServiceState.DELETED.value]}
    wanted = {"cleared_at": None, "$or": [{"state": takes_none}, {"health.holds": True}]}
    return list(services.find(wanted, {"state": 1, "disabled_at": 1, "health": 1}))


def move_some(
    store: Store, service: str, while_in: set[str], state: str, change: Mapping[str, Any]
) -> int | None:
    """Change some deliveries of a service that are in a state; tells how many.

    None: the service itself is in no state any more in which that is to be. Raises PyMongoError.
    """
    names = _oldest(store.deliveries, service, state, BATCH)
    if not store.services.find_one({"_id": service, "state": {"$in": [*while_in]}}, {"_id": 1}):
        return None
    if names:
        wanted = {"_id": {"$in": names}, "state": state}
        store.deliveries.update_many(wanted, {"$set": dict(change)}, hint="_id_")
    return len(names)


def note_holds(services: Collection[Document], service: str) -> None:
    """Note that a service holds deliveries: who held them may have vanished before it did so.

    Raises PyMongoError.
    """
    services.update_one(
        {"_id": service, "health.holds": {"$ne": True}}, {"$set": {"health.holds": True}}
    )


def all_open_again(services: Collection[Document], service: str, now: dt.datetime) -> None:
    """Note that nothing is held any more: a service that still fails does so since now."""
    again = {"_id": service, "state": ServiceState.ACTIVE.value}
    services.update_one(
        {**again, "health.failing_since": {"$ne": None}}, {"$set": {"health.failing_since": now}}
    )
    services.update_one(again, {"$unset": {"health.holds": ""}})


def all_services(services: Collection[Document]) -> list[tuple[str, str]]:
    """List the services that are not deleted, each with its account. Raises PyMongoError."""
    return [(each["_id"], each["account"]) for each in services.find(NOT_DELETED, {"account": 1})]


def open_and_held(deliveries: Collection[Document], service: str) -> tuple[int, int]:
    """Count the open and the held deliveries of a service. Raises PyMongoError."""
    opened, held = (
        deliveries.count_documents({"service": service, "state": state}) for state in (OPEN, HOLDS)
    )
    return opened, held


def end_oldest(
    deliveries: Collection[Document],
    service: str,
    most: int,
    change: Mapping[str, Any],
    before: dt.datetime | None,
) -> int:
    """End the oldest deliveries of a service, held ones first; tells how many. Raises PyMongoError.

    `before`: only held ones, of events of before then.
    """
    ended = 0
    for state in (HOLDS, OPEN) if before is None else (HOLDS,):
        names = _oldest(deliveries, service, state, most - ended)
        wanted: Document = {"_id": {"$in": names}, "state": state}
        if before is not None:
            wanted["made_at"] = {"$lt": before}
        if names:
            done = deliveries.update_many(wanted, {"$set": dict(change)}, hint="_id_")
            ended += done.modified_count
        if ended >= most:
            break
    return ended


def mean_bytes(store: Store, account: str, total: int, bytes_most: int) -> float:
    """Estimate how large the body of an event is of which an account has open deliveries.

    0: so small that what it has is below the bound in any case. Raises PyMongoError.
    """
    if total <= bytes_most // LARGEST_BODY:
        return 0.0
    first = "".join(secrets.choice(LETTERS) for _ in range(2))
    wanted: Document = {"_id": {"$gte": first, "$lt": f"{first}~"}}
    wanted |= {"account": account, "state": {"$in": [OPEN, HOLDS]}}
    names = [each["event"] for each in store.deliveries.find(wanted, {"event": 1}, limit=BATCH)]
    sizes = store.events.aggregate(
        [
            {"$match": {"_id": {"$in": names}}},
            {"$group": {"_id": None, "mean": {"$avg": {"$bsonSize": "$$ROOT"}}}},
        ]
    )
    return float(next((each["mean"] for each in sizes), 0.0))


def keep_counts(alerts: Collection[Document], counted: Mapping[str, Document]) -> None:
    """Keep what was counted for who asks; where it is as before nothing is written.

    Raises PyMongoError.
    """
    alerts.update_one({"_id": COUNTS}, {"$set": {"services": dict(counted)}}, upsert=True)


def note_given_up(
    alerts: Collection[Document], account: str, given_up: int, now: dt.datetime
) -> None:
    """Note that deliveries of an account were too many, for an alert. Raises PyMongoError."""
    change = {"$set": {f"given_up.{account}.at": now}, "$inc": {f"given_up.{account}.n": given_up}}
    alerts.update_one({"_id": COUNTS}, change, upsert=True)


def _oldest(deliveries: Collection[Document], service: str, state: str, most: int) -> list[str]:
    order = [("next_at", ASCENDING), ("_id", ASCENDING)]
    found = deliveries.find({"service": service, "state": state}, {"_id": 1}, limit=most)
    return [each["_id"] for each in found.sort(order).batch_size(most)]


def end(state: DeliveryState, why: str, now: dt.datetime) -> Document:
    """Write what a delivery becomes that no attempt ended."""
    return {"state": state.value, "why": why, "ended_at": now}


def cancel_some(deliveries: Collection[Document], service: str) -> int:
    """Cancel some open or held deliveries of a deleted service; how many. Raises PyMongoError."""
    left = _left_of(service)
    names = [each["_id"] for each in deliveries.find(left, {"_id": 1}).limit(CANCELLED_TOGETHER)]
    if names:
        change = {"$set": end(DeliveryState.CANCELLED, SERVICE_DELETED, dt.datetime.now(dt.UTC))}
        # An attempt may have ended some meanwhile: their state stays.
        deliveries.update_many({**left, "_id": {"$in": names}}, change)
    return len(names)


def note_cleared(stores: Collections, service: str) -> None:
    """Note that nothing is left of a deleted service, where that is so. Raises PyMongoError."""
    if stores.deliveries.find_one(_left_of(service), {"_id": 1}) is None:
        cleared = {"$set": {"cleared_at": dt.datetime.now(dt.UTC)}}
        stores.services.update_one({"_id": service}, cleared)


def _left_of(service: str) -> Document:
    return {"service": service, "state": {"$in": [DeliveryState.OPEN, DeliveryState.HELD]}}
