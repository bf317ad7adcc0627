"""Calls, answers and checkpoints as the tests of the store need them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from service.config.schema import Recheck
from service.worker.results.connection import Marks, Store
from service.worker.results.database import Collections, Document, Names
from service.worker.results.document import Answer, Failure
from service.worker.results.merge import merge
from service.worker.results.trackings import BulkWriter, Hears, Trackings, nobody
from tracking.call import Attempt, Call
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.errors import CourierDown, CourierError
from tracking.line import line_of
from tracking.request import Number, Origin, Slug, TrackingRequest

START = dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, dt.UTC)
NOW = dt.timedelta(0)
DEFAULTS = Recheck()
NUMBER = "9405903699300184125060"
NAME = f"usps:{NUMBER}"


@dataclass
class NoPermit:
    """Stands where a call carries its permit; nothing here sends a request."""

    deadline: float = 0.0
    started: bool = True

    async def again(self) -> None: ...
    async def before_send(self) -> None: ...
    def after_send(self) -> None: ...
    def answered(self, ago: float) -> None: ...


def recheck_of(_: str) -> Recheck:
    """What holds for every courier."""
    return DEFAULTS


def writer_on(store: Collections, hears: Hears = nobody) -> BulkWriter:
    return BulkWriter(store, Marks(store.forgotten), recheck_of, hears)


def hours(count: float) -> dt.timedelta:
    return dt.timedelta(hours=count)


def days(count: float) -> dt.timedelta:
    return dt.timedelta(days=count)


def call(
    after: dt.timedelta = NOW, number: str = NUMBER, origin: Origin = Origin.MANUAL, **fields: str
) -> Call:
    """A call that was granted so long after START."""
    granted_us = round((START + after).timestamp() * 1_000_000)
    request = TrackingRequest(Slug("usps"), Number(number), number, origin=origin, fields=fields)
    since = START.timestamp()
    return Call(f"call-{granted_us}", line_of(request), request, NoPermit(), granted_us, since)


def attempt(of: Call, outcome: str = "answered", excerpt: str = "") -> Attempt:
    at = dt.datetime.fromtimestamp(of.granted_us / 1_000_000, dt.UTC) + dt.timedelta(seconds=1)
    return Attempt(at, outcome, ms=123, http_status=200, excerpt=excerpt)


def scan(time: str, message: str = "Arrived", **more: Any) -> Checkpoint:
    given = {"tag": Tag.IN_TRANSIT, "subtag": "InTransit_003", "country_name": "UNITED STATES"}
    return Checkpoint(checkpoint_time=time, message=message, **(given | more))


def on_its_way(*scans: Checkpoint, **more: Any) -> Tracking:
    return Tracking(Tag.IN_TRANSIT, "InTransit_003", scans, **more)


def delivered(*scans: Checkpoint, **more: Any) -> Tracking:
    return Tracking(Tag.DELIVERED, "Delivered_001", scans, **more)


def answer(of: Call, tracking: Tracking) -> Answer:
    return Answer(of, tracking, attempt(of))


def failure(of: Call, error: CourierError | None = None, *, final: bool = False) -> Failure:
    error = error or CourierDown("502 Bad Gateway", http_status=502)
    return Failure(of, error, attempt(of, error.code), final)


FIRST = scan("2026-02-27T08:00:00", "Accepted", city="MIAMI")
SECOND = scan("2026-02-28T09:30:00", "Departed", city="MIAMI")
THIRD = scan("2026-03-01T07:15:00", "Arrived", city="ATLANTA")


def times(document: Document) -> list[str]:
    return [each["checkpoint_time"] for each in document["checkpoints"]]


JOURNEY = on_its_way(FIRST, SECOND)


async def prepared(mongo_uri: str, keep_days: int, database: str = "bucket") -> None:
    """What a worker that starts with this setting does."""
    store = Store(Names(mongo_uri, database, results_keep_days=keep_days))
    await store.prepare()
    await store.close()


async def answered(trackings: Trackings, of: Call, tracking: Tracking = JOURNEY) -> Call:
    """Store an answer to a call."""
    await trackings.save(of, tracking, attempt(of))
    return of


def found(store: Collections, name: str = NAME) -> Document:
    """Find the document of the parcel, which must be there."""
    document = store.tracking.find_one({"_id": name})
    assert document is not None
    return document


def stored(tracking: Tracking = JOURNEY, after: dt.timedelta = NOW) -> Document:
    return merge(None, answer(call(after), tracking)).document
