"""Questions to the collection `tracking`: of people about parcels, of re-checks about due ones.

And one to `accounts`: nobody is asked about parcels of those that are suspended.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import pymongo
from pymongo import ASCENDING
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from service.worker.results.database import EPOCH, Document, Refusal, change_each
from service.worker.results.document import ASKED_ALONE, document_id
from service.worker.results.recheck_policy import Pace, in_turn, read_pace
from tracking.checkpoint import Tag
from tracking.request import MAIN, Account, Number, Slug

_CHECK = (
    "slug",
    "tracking_number",
    "fields",
    "account",
    "next_check_at",
    "check_pace",
    ASKED_ALONE,
)
_RIDES: Document = {ASKED_ALONE: {"$exists": False}}
"""Others take a call of their own, and fill none."""

_SOONEST = [("next_check_at", ASCENDING)]


class Search(NamedTuple):
    """Which checks are looked for: at most so many of a courier, but for documents of these `_id`s.

    `turn`: how many of the courier's were put before, where more are due than are put.
    """

    slug: object
    now: dt.datetime
    most: int
    but: Sequence[object] = ()
    turn: int | None = None


BATCH_SIZE = 1_000

COUNTED_MOST = 10_000
"""Beyond so many nobody counts what is due: it would take as long as to read them all."""

COUNT_SECONDS = 0.5
"""A person waits for a count, and does without it then, or asks for less."""


class Behind(NamedTuple):
    """How far re-checks are behind: how many are `due`, COUNTED_MOST at most, and for how long."""

    due: int
    seconds: float


NOTHING_DUE = Behind(0, 0.0)


def suspended_accounts(accounts: Collection[Document]) -> dict[Account, str]:
    """Say of accounts that are suspended why they are."""
    found = accounts.find({"suspended.at": {"$exists": True}}, {"suspended": 1})
    return {Account(each["_id"]): each["suspended"]["why"] for each in found}


def find_tracking(
    tracking: Collection[Document], slug: Slug, number: Number, account: Account = MAIN
) -> Document | None:
    """Find the document that an account has of a parcel; None when there is none."""
    return tracking.find_one({"_id": document_id(f"{slug}:{number}", account)})


def followed_by_several(tracking: Collection[Document]) -> int:
    """Count the active parcels of which more than one account has a document."""
    parcel = {"$concat": ["$slug", ":", "$tracking_number"]}
    asked: list[Document] = [
        {"$match": {"account": {"$exists": True}, "active": True}},
        {"$group": {"_id": parcel, "others": {"$sum": 1}}},
        {
            "$lookup": {
                "from": tracking.name,
                "localField": "_id",
                "foreignField": "_id",
                "as": "main",
            }
        },
        {"$match": {"$or": [{"others": {"$gt": 1}}, {"main.active": True}]}},
        {"$count": "parcels"},
    ]
    return next((int(each["parcels"]) for each in tracking.aggregate(asked)), 0)


def delivered_since(account: Account, at: dt.datetime) -> Document:
    """Ask for an account's parcels that were delivered since then.

    Where the courier names no time it is that of the answer.
    """
    late: Document = {"updated_at": {"$gte": at}, "delivered_at_utc": {"$not": {"$lt": at}}}
    return {**_whose(account), "tag": Tag.DELIVERED.value, **late}


def overdue(account: Account, at: dt.datetime) -> Document:
    """Ask for an account's parcels whose day of delivery is over.

    The day is the courier's text, as `is_overdue` reads it.
    """
    days = {"$gt": "", "$lt": f"{at:%Y-%m-%d}"}
    return {**_whose(account), "active": True, "expected_delivery": days}


def count_in_time(
    collection: Collection[Document], wanted: Document, most: int = COUNTED_MOST
) -> int | None:
    """Count for a person, `most` at most; None where that takes COUNT_SECONDS."""
    try:
        with pymongo.timeout(COUNT_SECONDS):
            # What drivers make of `count` is an aggregation, which takes longer.
            told = collection.database.command("count", collection.name, query=wanted, limit=most)
            return int(told["n"])
    except PyMongoError as error:
        if error.timeout:
            return None
        raise


def _whose(account: Account) -> Document:
    return {"account": None if account == MAIN else account}


def slugs_with_due(tracking: Collection[Document], now: dt.datetime) -> list[object]:
    """List each `slug` of active parcels whose next check is due; None where there is none."""
    return [group["_id"] for group in tracking.aggregate(due_slugs(now))]


def due_slugs(now: dt.datetime) -> list[Document]:
    """Group them so that MongoDB leaps from one slug to the next, past all parcels of each."""
    return [{"$match": _due(now)}, {"$group": {"_id": "$slug"}}]


def due_for_check(tracking: Collection[Document], search: Search) -> list[Document]:
    """List active parcels whose next check is due: all of them, or the first by `in_turn`."""
    wanted = _due(search.now) | _in(search)
    if search.turn is not None:
        return _first_of_many(tracking, wanted, search)
    found = list(tracking.find(wanted, _CHECK, limit=search.most, batch_size=search.most))
    return sorted(found, key=itemgetter("next_check_at"))


def are_more_due(tracking: Collection[Document], search: Search) -> bool:
    """Whether more than so many are due: then their order matters. Counted in the index."""
    wanted = _due(search.now) | _in(search)
    return tracking.count_documents(wanted, limit=search.most + 1) > search.most


def _first_of_many(
    tracking: Collection[Document], wanted: Document, search: Search
) -> list[Document]:
    """Read the first of more than are wanted: of each pace hardly more than are among them."""
    _, now, most, _, turn = search
    turn = turn or 0
    few = max(20, most // 8)
    cursors = {
        text: tracking.find(
            _of_pace(wanted, text), _CHECK, sort=_SOONEST, limit=most, batch_size=few
        )
        for text in _paces(tracking, wanted)
    }
    try:
        waiting = [(read_pace(text), cursor) for text, cursor in cursors.items()]
        return list(islice(in_turn(waiting, now, turn), most))
    finally:
        for cursor in cursors.values():
            cursor.close()


def early_for_check(tracking: Collection[Document], search: Search) -> list[Document]:
    """List active parcels whose check may be put before its time, the soonest first."""
    wanted = early_of(tracking, search)
    return list(tracking.find(wanted, _CHECK, sort=_SOONEST, limit=search.most)) if wanted else []


def early_of(tracking: Collection[Document], search: Search) -> Document:
    """Ask for those that are due within a tenth of their pace's time; {}: there are none."""
    now = search.now
    coming: Document = {"active": True, "next_check_at": {"$gt": now}, **_in(search)}
    windows = [
        _of_pace(coming, text) | _RIDES | {"next_check_at": {"$gt": now, "$lte": now + early}}
        for text in _paces(tracking, coming)
        if (early := read_pace(text).early)
    ]
    return {"$or": windows} if windows else {}


def checks_behind(tracking: Collection[Document], now: dt.datetime) -> dict[str, Behind]:
    """Count what is due, by slug, and say since when: both out of the index alone."""
    slugs = [slug for slug in slugs_with_due(tracking, now) if isinstance(slug, str)]
    return {slug: _behind(tracking, _due(now) | {"slug": slug}, now) for slug in slugs}


def _behind(tracking: Collection[Document], wanted: Document, now: dt.datetime) -> Behind:
    since = min((each["since"] for each in tracking.aggregate(oldest_of(wanted))), default=now)
    due = tracking.count_documents(wanted, limit=COUNTED_MOST)
    return Behind(due, (now - since).total_seconds())


def oldest_of(wanted: Document) -> list[Document]:
    """Find the oldest of each pace; MongoDB leaps from one pace to the next."""
    order = {"slug": ASCENDING, "check_pace": ASCENDING, "next_check_at": ASCENDING}
    group = {"_id": "$check_pace", "since": {"$first": "$next_check_at"}}
    return [{"$match": wanted}, {"$sort": order}, {"$group": group}]


def put_off_checks(
    tracking: Collection[Document], checks: Mapping[str, dt.datetime], put: Pace, until: dt.datetime
) -> list[Refusal]:
    """Move checks that were put on the tube, by `_id`; only those that still are at these dates.

    `put`: their pace from now on. Returns what MongoDB refuses: these documents stay due.
    """
    wanted = {"_id": {"$in": list(checks)}, "next_check_at": {"$in": list(set(checks.values()))}}
    change = {"$set": {"next_check_at": until, "check_pace": put.text}}
    return change_each(tracking, wanted, change)[1]


def call_in_checks(
    tracking: Collection[Document], account: Account, until: dt.datetime, now: dt.datetime
) -> None:
    """Make the checks of an account due now that were put off until an instant."""
    wanted = put_off_until(account, until)
    names = [each["_id"] for each in tracking.find(wanted, {"_id": 1})]
    for begin in range(0, len(names), BATCH_SIZE):
        some = {"_id": {"$in": names[begin : begin + BATCH_SIZE]}, "next_check_at": until}
        change_each(tracking, some, {"$set": {"next_check_at": now}})


def put_off_until(account: Account, until: dt.datetime) -> Document:
    """Ask for those; MongoDB leaps from the ones of a slug and pace to the next."""
    return {"active": True, "next_check_at": until, **_whose(account)}


def end_checks(
    tracking: Collection[Document], names: Sequence[str], now: dt.datetime | None = None
) -> list[Refusal]:
    """End the checks of parcels, until somebody asks again; with `now`, of those due then."""
    wanted: Document = {"_id": {"$in": names}} | ({"next_check_at": {"$lte": now}} if now else {})
    return change_each(tracking, wanted, {"$set": {"next_check_at": None}})[1]


def give_up_check(
    tracking: Collection[Document], name: object, now: dt.datetime, why: str
) -> list[Refusal]:
    """Note what is wrong with a document that this service did not write; check it no more."""
    error = {"code": "bad_document", "message": why, "at": now}
    change = {"$set": {"next_check_at": None, "error": error}}
    return change_each(tracking, {"_id": {"$in": [name]}}, change)[1]


def _due(now: dt.datetime) -> Document:
    return {"active": True, "next_check_at": {"$gt": EPOCH, "$lte": now}}


def _paces(tracking: Collection[Document], wanted: Document) -> list[object]:
    """List the paces of checks of one slug; MongoDB leaps from one to the next."""
    return [group["_id"] for group in tracking.aggregate(paces_of(wanted))]


def paces_of(wanted: Document) -> list[Document]:
    """Group the checks of one slug by their paces."""
    return [{"$match": wanted}, {"$group": {"_id": "$check_pace"}}]


def _in(search: Search) -> Document:
    but = {"_id": {"$nin": list(search.but)}} if search.but else {}
    return {"slug": {"$eq": search.slug}, **but}


def _of_pace(wanted: Document, text: object) -> Document:
    return wanted | {"check_pace": {"$eq": text}}
