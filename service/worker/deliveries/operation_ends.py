"""Ends of operations: the service that a request named hears how its operation ended.

================================== ================================================================
the request                        who tells its service, and when
================================== ================================================================
ended in Redis, however            the archiver, once MongoDB has it and before Redis lets go of it
was not taken: too late, full, or  the worker, behind the record in `dead` and before its job goes;
of an id that is another one's     as ERROR, for the reason of the record
was malformed, as far as it names  the same
its service and its id
================================== ================================================================

Its event and its delivery have ids that follow from the operation: to tell of it twice changes
nothing. The service hears of it whatever else it wants to hear of, as the request names it. Of a
service that is not there nobody hears.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from service.worker.deliveries import body
from service.worker.deliveries.delivery import Delivery, event_id
from service.worker.deliveries.outbox import BringIn, Told, delivery_of, insert
from service.worker.deliveries.service import Format, Service
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.change import EventName
from service.worker.results.connection import Store, patiently
from service.worker.results.database import Document, log_refused
from service.worker.results.document import stored
from tracking.call import DeadLetter
from tracking.errors import TubesDown
from tracking.line import Line
from tracking.operation import State
from tracking.request import account_and_id

CONFIRM_SECONDS = 12.0
"""How long a batch waits for a majority that lags: the archiver loses its lock soon after."""


class OperationEnds:
    """Tells of ends of operations; implements `service.ports.Tells`. One per process."""

    def __init__(self, store: Store, known: Subscriptions, bring_in: BringIn) -> None:
        self._store = store
        self._known = known
        self._bring_in = bring_in

    async def archived(self, documents: Iterable[Document]) -> None:
        """Tell of operations that are archived, and name a service. Raises ResultsDown.

        The services are read for it: this process asks for nothing else that would have it know.
        """
        await self._known.learn()
        await self._tell([(each["_id"], each) for each in documents])

    async def refused(self, letter: DeadLetter, service: str) -> None:
        """Tell that a request was not taken, which its record says. Raises ResultsDown."""
        (identity,) = letter.operations
        account, _ = account_and_id(identity)
        if self._known.named(account, service) is None:
            await self._known.learn()
        now = dt.datetime.now(dt.UTC)
        document: Document = {
            "id": identity,
            "account": account,
            "slug": letter.slug or "",
            "number": letter.number or "",
            "state": State.ERROR.value,
            "output": {"code": letter.reason, "message": letter.detail},
            "admitted_at": now,
            "finished_at": stored(now),
            "webhook": service,
        }
        await self._tell([(f"refused {letter.id}", document)])

    async def _tell(self, ends: Sequence[tuple[str, Document]]) -> None:
        told = [
            told_of(change, document, service)
            for change, document in ends
            if (service := self._service_of(document)) is not None
        ]
        if not told:
            return
        step = partial(insert, self._store, told)
        inserted = await self._store.in_background(patiently, CONFIRM_SECONDS, step)
        # Nobody tells of it again: what MongoDB refuses must not hold up the others for ever.
        log_refused(self._store.events, inserted.kept.values())
        self._bring_in(inserted.due)

    def _service_of(self, document: Mapping[str, Any]) -> Service | None:
        return self._known.named(document["account"], document["webhook"])


def told_of(change: str, document: Mapping[str, Any], service: Service) -> Told:
    """Make the event of an operation that ended, with its delivery.

    `change` names the end: the operation and when it was admitted, or the job of a request that was
    not taken.
    """
    event, at = EventName.OPERATION_ENDED, document["finished_at"]
    slug, number = document["slug"], document["number"]
    made = body.event_document(
        name=event_id(change, event),
        account=service.account,
        event=event,
        at=at,
        bodies={Format.STANDARD: body.standard(event, at, body.operation_data(document))},
        parcel=f"{slug}:{number}" if slug and number else "",
        operation=document["id"],
    )
    asked_us = document["admitted_at"].timestamp() * 1_000_000
    return Told(change, made, [delivery_of(change, made, service)], asked_us)


class Drains:
    """Has workers look at the lines of new deliveries, from a process that brings none in itself.

    A job of the tube `wait_list` wakes the filler of the worker that reserves it (filler.py).
    """

    def __init__(self, put_drain: Callable[[Line], Awaitable[None]]) -> None:
        self._put_drain = put_drain
        self._puts = set[asyncio.Task[None]]()

    def ask(self, deliveries: Sequence[Delivery]) -> None:
        """Put a job for each line, without waiting for it."""
        for line in dict.fromkeys(each.line for each in deliveries):
            put = asyncio.create_task(self._put(line))
            self._puts.add(put)
            put.add_done_callback(self._puts.discard)

    async def _put(self, line: Line) -> None:
        with suppress(TubesDown):  # fillers look every few seconds, too
            await self._put_drain(line)
