"""What the event loop wants done to held jobs, and the doing of it in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from service.observe.events import Event
from service.observe.log import emit
from service.tubes.commands import Reply, Verb
from service.tubes.connection import Connection, Reservation
from service.tubes.held import by_connection, forget
from tracking.errors import TubesDown

_NEEDS_PRIORITY = frozenset({Verb.BURY, Verb.RELEASE})


@dataclass(slots=True, eq=False)
class Order:
    """One thing to do to one job. `verb` None: only read its facts."""

    reservation: Reservation
    verb: Verb | None
    done: asyncio.Future[None]

    @property
    def settles(self) -> bool:
        """Whether the job is out of our hands afterwards."""
        return self.verb is not None

    @property
    def frees_room(self) -> bool:
        """Whether the job takes room until then."""
        return self.verb is not None and not self.reservation.roomless


def carry_out(orders: Iterable[Order]) -> None:
    """Do what was ordered, in one conversation per connection and verb. Never raises.

    Nothing is done to a job whose connection has ended: it belongs to somebody else.
    """
    for connection, group in by_connection(orders, _reservation):
        with suppress(TubesDown):
            _carry_out(connection, group)
        for order in group:
            if order.settles:
                forget(order.reservation)


def resolve(orders: Iterable[Order]) -> None:
    """Tell those who wait that their orders are done; runs on the event loop."""
    for order in orders:
        if not order.done.done():  # the one who waited was cancelled
            order.done.set_result(None)


def _carry_out(connection: Connection, orders: Sequence[Order]) -> None:
    if not connection.alive:
        return
    unread = [order.reservation for order in orders if _needs_facts(order)]
    if unread:
        connection.read_facts(unread)
    for verb in Verb:
        jobs = [order.reservation for order in orders if order.verb is verb]
        if not jobs:
            continue
        for job, reply in zip(jobs, connection.tell(verb, jobs), strict=True):
            if reply is Reply.STUCK:
                emit(Event.JOB_STUCK, server=connection.server, job=job.raw.id, why=verb.value)


def _needs_facts(order: Order) -> bool:
    return order.verb is None or (
        order.verb in _NEEDS_PRIORITY and order.reservation.priority is None
    )


def _reservation(order: Order) -> Reservation:
    return order.reservation
