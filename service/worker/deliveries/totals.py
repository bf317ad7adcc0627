"""Totals: what became of deliveries, per service and day, for ever; and the digests of a day.

The collection `statistics` has, beside the days of couriers (results/statistics.py):

============== ==================================================================================
member         is
============== ==================================================================================
`_id`          `"2026-11-26:~<service id>"`
day, service, account
parts          by the minute at which ten minutes begin, `"1430"`: deliveries by their end
               (`delivered`, `dead`, `cancelled`, `completed`), `attempts`, how many of those
               `failed`, and how many were `retried`: not the first of their delivery; `requests`
               that a relay took
counts         the same of the whole day, once it is over for a day; then `parts` goes
============== ==================================================================================

They are counted out of the rows of `deliveries` and `attempts`, ten minutes at a time, those that
are over; and twice more, for what was written late, and again where a request comes later still
(words.py). A figure only grows, so a repetition, or a second process, makes it no worse.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from functools import partial
from typing import Any

from pymongo.collection import Collection

from service.observe.events import Event
from service.observe.log import emit
from service.worker.deliveries.alert_texts import digest, digest_of_dead
from service.worker.deliveries.alerts import Addresses, address_of
from service.worker.deliveries.mail import About, write_mail
from service.worker.deliveries.standing import (
    DAY,
    FIGURES,
    Pipeline,
    beginning,
    day_name,
    days_on,
    figures_of,
)
from service.worker.results.connection import Store, patiently
from service.worker.results.database import OF_RELAYS, Collections, Document, upsert_each

PERIOD_SECONDS = 60.0
PART = dt.timedelta(minutes=10)
SETTLES = dt.timedelta(minutes=2)
"""After so long nearly all of ten minutes is written; the rest is found by the next counts."""

COUNTED_AGAIN = 2 * PART
BEGINS_BEFORE = dt.timedelta(days=1)
"""Where the first count of all begins, where there is anything."""

PATIENCE_SECONDS = 12.0
"""For one count: shorter than the archive's lock lives, whose process this is."""

CURSOR = "totals"
"""The document of `alerts`: until when is counted, and which days had their digests."""

DIGEST = "digest"
"""What the mail of a day is about."""


class Totals:
    """Counts, and writes digests."""

    def __init__(self, store: Store, addresses: Addresses) -> None:
        self._store = store
        self._addresses = addresses

    async def look(self, now: dt.datetime | None = None) -> None:
        """Count what is over, and write the digests of days that are. Raises ResultsDown."""
        now, store = now or dt.datetime.now(dt.UTC), self._store
        until = beginning(now - SETTLES, PART)
        cursor = await store.in_background(read_cursor, store.alerts)
        counted: dt.datetime | None = cursor.get("until")
        if counted is None or counted < until:
            if counted is None:
                counted = await store.in_background(beginning_of_all, store, until)
            at = counted - COUNTED_AGAIN
            while at < until:
                await store.in_background(patiently, PATIENCE_SECONDS, partial(count, store, at))
                at += PART
            await store.in_background(keep_cursor, store.alerts, {"until": until})
        today = beginning(until - COUNTED_AGAIN, DAY)
        day = cursor.get("day") or today
        while day < today:
            await self._write_digests(day)
            await store.in_background(fold, store.statistics, day - DAY)
            day += DAY
        if day != cursor.get("day"):
            await store.in_background(keep_cursor, store.alerts, {"day": day})

    async def _write_digests(self, day: dt.datetime) -> None:
        step = partial(write_digests, self._store, self._addresses, day)
        for account, dead in await self._store.in_background(patiently, PATIENCE_SECONDS, step):
            if account:
                emit(Event.DIGEST, account=account, deliveries=dead)
            else:
                emit(Event.DIGEST, requests=dead)


def beginning_of_all(store: Collections, until: dt.datetime) -> dt.datetime:
    """Tell where the first count begins: 145 spans for nothing cost more than an hour of rest.

    Raises PyMongoError.
    """
    anything = store.deliveries.find_one({}, {"_id": 1}) or store.attempts.find_one({}, {"_id": 1})
    return until - BEGINS_BEFORE if anything else until


def count(store: Collections, at: dt.datetime) -> None:
    """Count what ended, and what was tried, in ten minutes from `at` on. Raises PyMongoError."""
    span = {"$gte": at, "$lt": at + PART}
    of = {"service": "$service", "account": "$account"}
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    ended: Pipeline = [
        {"$match": {"ended_at": span}},
        {"$group": {"_id": {**of, "state": "$state"}, "n": {"$sum": 1}}},
    ]
    for each in store.deliveries.aggregate(ended):
        group = each["_id"]
        found[group["service"], group["account"]][group["state"]] += each["n"]
    for each in store.attempts.aggregate(_tried(span, of)):
        counter = found[each["_id"]["service"], each["_id"]["account"]]
        counter.update({name: each[name] for name in ("attempts", "failed", "retried")})
    came: Pipeline = [
        # By the index of relayed requests, from one account to the next.
        {"$match": {**OF_RELAYS, "account": {"$gt": ""}, "made_at": span}},
        {"$group": {"_id": of, "n": {"$sum": 1}}},
    ]
    for each in store.deliveries.aggregate(came):
        found[each["_id"]["service"], each["_id"]["account"]]["requests"] += each["n"]
    upsert_each(
        store.statistics, {day_name(at, key[0]): _raise(at, key, found[key]) for key in found}
    )


def _tried(span: Document, of: Document) -> Pipeline:
    failed = {"$cond": [{"$ifNull": ["$failure", False]}, 1, 0]}
    is_first = {"$regexMatch": {"input": "$_id", "regex": r"\.1$"}}
    retried = {"$cond": [is_first, 0, 1]}
    sums = {"attempts": {"$sum": 1}, "failed": {"$sum": failed}, "retried": {"$sum": retried}}
    return [{"$match": {"at": span}}, {"$group": {"_id": of, **sums}}]


def _raise(at: dt.datetime, key: tuple[str, str], counter: Counter[str]) -> Document:
    service, account = key
    figures = {f"parts.{at:%H%M}.{name}": counter[name] for name in FIGURES if counter[name]}
    named = {"day": beginning(at, DAY), "service": service, "account": account}
    return {"$max": figures, "$setOnInsert": named} if figures else {"$setOnInsert": named}


def fold(statistics: Collection[Document], day: dt.datetime) -> None:
    """Add up the parts of a day, which nobody counts any more. Raises PyMongoError."""
    for each in days_on(statistics, day):
        change = {"$set": {"counts": dict(figures_of(each))}, "$unset": {"parts": ""}}
        if parts := each.get("parts"):
            statistics.update_one({"_id": each["_id"], "parts": parts}, change)


def write_digests(
    store: Collections, addresses: Addresses, day: dt.datetime
) -> list[tuple[str, int]]:
    """Write the digests of a day, once; gives the account, "" for operators, and how many died.

    Raises PyMongoError.
    """
    written: list[tuple[str, int]] = []
    by_account: dict[str, list[tuple[str, Counter[str]]]] = defaultdict(list)
    for each in days_on(store.statistics, day):
        figures = figures_of(each)
        if figures["dead"]:
            by_account[each["account"]].append((_service_name(store, each["service"]), figures))
    for account, services in sorted(by_account.items()):
        to, text = address_of(store, account), digest(account, day, sorted(services))
        written.append((account, sum(each["dead"] for _, each in services)))
        if addresses.by_mail and to:
            name = f"digest.{day:%Y-%m-%d}.{account}"
            write_mail(store.mails, name, to, text, About(DIGEST, account))
    if dead := dead_of(store, day):
        written.append(("", sum(count for _, _, count in dead)))
        if addresses.by_mail and addresses.operators:
            text = digest_of_dead(day, dead)
            name = f"digest.{day:%Y-%m-%d}"
            write_mail(store.mails, name, addresses.operators, text, About(DIGEST, ""))
    return written


def _service_name(store: Collections, service: str) -> str:
    found: dict[str, Any] = store.services.find_one({"_id": service}, {"name": 1}) or {}
    return str(found.get("name", service))


def dead_of(store: Collections, day: dt.datetime) -> list[tuple[str, str, int]]:
    """Count the requests that died on a day, by courier and reason. Raises PyMongoError."""
    grouped: Pipeline = [
        {"$match": {"at": {"$gte": day, "$lt": day + DAY}}},
        {"$group": {"_id": {"slug": "$slug", "reason": "$reason"}, "n": {"$sum": 1}}},
    ]
    found = store.dead.aggregate(grouped)
    return sorted(
        (each["_id"].get("slug") or "", each["_id"].get("reason") or "", each["n"])
        for each in found
    )


def read_cursor(alerts: Collection[Document]) -> Document:
    """Read how far was counted. Raises PyMongoError."""
    return alerts.find_one({"_id": CURSOR}) or {}


def keep_cursor(alerts: Collection[Document], change: Document) -> None:
    """Keep how far was counted. Raises PyMongoError."""
    alerts.update_one({"_id": CURSOR}, {"$max": change}, upsert=True)
