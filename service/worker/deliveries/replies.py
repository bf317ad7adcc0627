"""Replies that tell of an end: then the service that the request named need not hear of it.

=============================== ==================================================================
step                            the delivery
=============================== ==================================================================
a held reply is about to tell   is due only after CLAIM_SECONDS: it is inserted so, ahead of the
of the end (`claim`)            archiver, or put off where it is there and open
the bytes of the reply were     is cancelled, unless an attempt has moved it on meanwhile
written (`cancel`)
nobody knows whether they were  is due when the claim lapses: at worst both tell
=============================== ==================================================================

An attempt reads the delivery before it sends, and leaves what is not due.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from pymongo.read_concern import ReadConcern

from limits.archive import Ended
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.operation_ends import told_of
from service.worker.deliveries.outbox import insert
from service.worker.deliveries.service import NOT_DELETED
from service.worker.deliveries.subscriptions import readable
from service.worker.results.database import Collections, Document
from service.worker.results.operations import NotArchivable, find_operation, read_ended

CLAIM_SECONDS = 10.0
"""How long a reply may take to be written: of a client that reads slowly the service hears, too."""

REPLIED = "replied"
"""Why such a delivery is cancelled."""

_WAITS = {"$in": [DeliveryState.OPEN.value, DeliveryState.HELD.value]}


def claim(stores: Collections, identity: str, status: str | None) -> Document | None:
    """Put off the delivery of an operation's end; None: there is none to put off.

    `status`: of the operation, as Redis has it, None where it does not. Gives what finds the
    delivery until somebody moves it on. Raises PyMongoError.
    """
    document = _ended(identity, status) if status else find_operation(stores.operations, identity)
    if not document or not document.get("webhook") or not document.get("cancels"):
        return None
    named = {"account": document["account"], "name": document["webhook"]}
    service = next(readable(stores.services.find({**NOT_DELETED, **named}).limit(1)), None)
    if service is None:
        return None
    told = told_of(document["_id"], document, service)
    now = dt.datetime.now(dt.UTC)
    until = now.replace(microsecond=0) + dt.timedelta(seconds=CLAIM_SECONDS)
    ours = [dataclasses.replace(each, next_at=until) for each in told.deliveries]
    insert(stores, [told._replace(deliveries=ours)])
    durable = stores.deliveries.with_options(read_concern=ReadConcern("majority"))
    there = durable.find_one({"_id": ours[0].id}, {"round": 1, "made": 1})
    if there is None:
        return None
    unmoved = {**there, "state": _WAITS}
    put_off = stores.deliveries.update_one(unmoved, {"$max": {"next_at": until}})
    return unmoved if put_off.matched_count else None


def cancel(stores: Collections, claimed: Document) -> None:
    """Cancel a delivery that was claimed, unless it went on meanwhile. Raises PyMongoError."""
    ended = {
        "state": DeliveryState.CANCELLED.value,
        "why": REPLIED,
        "ended_at": dt.datetime.now(dt.UTC),
    }
    stores.deliveries.update_one(claimed, {"$set": ended})


def _ended(identity: str, status: str) -> Document | None:
    """Make the document that the archiver makes of an operation; None of one that is open."""
    try:
        read: Mapping[str, Any] = json.loads(status)
        finished = dt.datetime.fromisoformat(read["finishedAt"])
        document, _ = read_ended(Ended(identity, round(finished.timestamp() * 1000), status))
    except (ValueError, TypeError, KeyError, NotArchivable):
        return None
    return document
