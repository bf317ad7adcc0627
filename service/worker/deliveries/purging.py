"""Purging deliveries: what is old of them, and what goes with them.

======================= ========================== ================================================
kind                    setting                    goes with them
======================= ========================== ================================================
`deliveries` of events  `[webhooks] keep_days`     nothing: MongoDB deletes bodies and attempts at
                                                   dates of their own
`inbox`: of requests    `[webhooks]                the request with its body, and its attempts
that a relay took       inbox_keep_days`, or days
                        of their account
======================= ========================== ================================================

A request stays as long as its delivery, which may be sent again so long. Its own date
(RELAYED_DAYS) is for what a process leaves that vanishes between the two.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial

from service.worker.deliveries.delivery import attempt_id
from service.worker.results.change import EventName
from service.worker.results.database import INBOX_KEEP_DAYS_MOST, Collections, Document, Names
from service.worker.results.retention import Kind

RELAYED_DAYS = INBOX_KEEP_DAYS_MOST + 40
"""A request is open for 7 days, held for 30, and kept for as long as an account may have it."""


def kinds_of_deliveries(stores: Collections, names: Names, now: dt.datetime) -> Iterator[Kind]:
    """List the kinds of deliveries that have an end. Raises PyMongoError."""

    def before(days: int) -> Document:
        return {"ended_at": {"$lt": now - dt.timedelta(days=days)}}

    relayed = EventName.RELAY_REQUEST.value
    others = [each.value for each in EventName if each is not EventName.RELAY_REQUEST]
    noted = {"type": {"$in": others}, **before(names.deliveries_keep_days)}
    yield Kind("deliveries", stores.deliveries, noted)
    own, gone = days_of_accounts(stores), partial(delete_parts, stores)
    for account, days in [({"$nin": list(own)}, names.inbox_keep_days), *own.items()]:
        old = {"type": relayed, "account": account, **before(days)}
        needed = ("event", "made")
        yield Kind("inbox", stores.deliveries, old, gone=gone, needed=needed)


def days_of_accounts(stores: Collections) -> dict[str, int]:
    """Find for how many days accounts have relayed requests kept, those that set it."""
    own = {"inbox_keep_days": {"$gt": 0}, "removed_at": None}
    found = stores.accounts.find(own, {"inbox_keep_days": 1})
    return {each["_id"]: each["inbox_keep_days"] for each in found}


def delete_parts(stores: Collections, deliveries: Sequence[Document]) -> dict[str, int]:
    """Delete the attempts and the events of deliveries, by their `_id`, `event` and `made`.

    Also an attempt that is stored, and not counted yet. Says how many there were of each kind.
    Raises PyMongoError.
    """
    attempts = [
        attempt_id(each["_id"], number)
        for each in deliveries
        for number in range(1, each["made"] + 2)
    ]
    events = [each["event"] for each in deliveries]
    parts = (("attempts", stores.attempts, attempts), ("events", stores.events, events))
    return {
        kind: home.delete_many({"_id": {"$in": ids}}).deleted_count if ids else 0
        for kind, home, ids in parts
    }
