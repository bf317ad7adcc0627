"""Notes of the health of services, in their documents: `health`, `disabled_at`, `disabled_why`.

Each is written on a change alone, by compare-and-set, so that a service that is well costs no write
however much it is sent, and so that any number of processes may note the same:

====================== =============================================================================
member                 is
====================== =============================================================================
`health.failing_since` when the first of its failures in a row was; missing: it is well
`health.holds`         its deliveries were held, and are not all open again (keeper.py)
`disabled_at`          since when it is disabled, and `disabled_why`, by health.DisabledWhy
====================== =============================================================================

Who changes the state of a service by hand writes none of them, but `disabled_at` and `disabled_why`
back to nothing.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pymongo import ReturnDocument
from pymongo.collection import Collection

from service.observe.events import Event
from service.observe.log import emit
from service.worker.deliveries.attempt import Ending
from service.worker.deliveries.health import (
    DisabledWhy,
    Note,
    Noted,
    has_failed_for_long,
    note_of,
)
from service.worker.deliveries.service import Service, ServiceState
from service.worker.results.connection import Batches, Store
from service.worker.results.database import Document
from tracking.errors import AWAY

NOTED_MOST = 100_000
"""Services of which a process keeps in mind what is noted; with more it reads all again."""

_HEALTH = {"health": 1}


class Healths:
    """Notes what attempts show. One per process."""

    def __init__(self, store: Store, changed: Callable[[], Awaitable[object]]) -> None:
        """`changed` has all processes read the services again."""
        self._store = store
        self._changed = changed
        self._noted: dict[str, Noted] = {}
        self._wells = Batches[str, None](self._note_well)
        """Of a service that is not known yet, each delivery in flight notes that it is well."""

    async def note(self, service: Service, ending: Ending, at: dt.datetime, *, first: bool) -> None:
        """Note how an attempt ended, behind the change of its delivery. Usually asks nobody.

        `first`: none of its delivery had failed before. Raises ResultsDown: repeat it.
        """
        if not ending.is_of_the_service:
            return
        noted = self._noted.get(service.id)
        note = note_of(ending, noted, first=first, now=time.monotonic())
        services = self._store.services
        if note is Note.WELL:
            await self._wells.submit(service.id)
            self._know(service, None)
        elif note is Note.FAILING:
            since = await self._store.on_writer(note_failing, services, service.id, at)
            self._know(service, since)
        if note is Note.GONE:
            await self._disable(service, DisabledWhy.GONE, at)
            return
        known = self._noted.get(service.id)
        if ending.failure and known and has_failed_for_long(known.failing_since, at):
            await self._disable(service, DisabledWhy.FAILING, at)

    async def _note_well(self, ids: list[str]) -> Sequence[None]:
        await self._store.on_writer(note_well, self._store.services, ids)
        return [None] * len(ids)

    def _know(self, service: Service, failing_since: dt.datetime | None) -> None:
        if len(self._noted) >= NOTED_MOST:
            self._noted.clear()
        self._noted[service.id] = Noted(failing_since, time.monotonic())

    async def _disable(self, service: Service, why: DisabledWhy, at: dt.datetime) -> None:
        """Disable a service that nobody else has disabled."""
        services = self._store.services
        done = await self._store.on_writer(disable, services, service.id, why, at)
        self._noted.pop(service.id, None)
        if done:
            emit(Event.DISABLED, service=service.name, account=service.account, why=why.value)
            with suppress(*AWAY):  # the keeper has it read as well
                await self._changed()


def note_well(services: Collection[Document], ids: Iterable[str]) -> None:
    """Note that services are well. Raises PyMongoError."""
    failing = {"_id": {"$in": list(set(ids))}, "health.failing_since": {"$ne": None}}
    change = {"$unset": {"health.failing_since": ""}}
    services.update_many(failing, change)


def note_failing(
    services: Collection[Document], service: str, at: dt.datetime
) -> dt.datetime | None:
    """Note that a service fails; tells since when. None: there is none. Raises PyMongoError."""
    well = {"_id": service, "health.failing_since": None}
    change = {"$set": {"health.failing_since": at}}
    found = services.find_one_and_update(
        well, change, _HEALTH, return_document=ReturnDocument.AFTER
    ) or services.find_one({"_id": service}, _HEALTH)
    return failing_since_in(found) if found else None


def disable(
    services: Collection[Document], service: str, why: DisabledWhy, at: dt.datetime
) -> bool:
    """Disable a service; tells whether that was done just now. Raises PyMongoError.

    A paused one is disabled only where it is gone: nothing is sent to it that could fail. What
    was held once is to be open again, all of it, before failures count again.
    """
    wanted: dict[str, Any] = {"_id": service, "state": ServiceState.ACTIVE.value}
    if why is DisabledWhy.GONE:
        wanted["state"] = {"$in": [ServiceState.ACTIVE.value, ServiceState.PAUSED.value]}
    else:
        wanted |= {"health.holds": {"$ne": True}, "health.failing_since": {"$ne": None}}
        found = services.find_one(wanted, _HEALTH)
        if not found or not has_failed_for_long(failing_since_in(found), at):
            return False
        wanted["health.failing_since"] = failing_since_in(found)
    change = {
        "state": ServiceState.DISABLED.value,
        "disabled_at": at,
        "disabled_why": why.value,
        "health.holds": True,
    }
    return bool(services.update_one(wanted, {"$set": change}).modified_count)


def failing_since_in(document: Document) -> dt.datetime | None:
    """Read since when a service fails."""
    since: dt.datetime | None = (document.get("health") or {}).get("failing_since")
    return since
