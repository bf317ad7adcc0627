"""Questions to the collection `tracking`: of people about parcels, of re-checks about due ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pymongo import ASCENDING
from pymongo.collection import Collection

from service.worker.results.database import EPOCH, Document, Refusal, change_each
from service.worker.results.document import document_id
from tracking.request import MAIN, Account, Number, Slug


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


def slugs_with_due(tracking: Collection[Document], now: dt.datetime) -> list[object]:
    """List each `slug` of active parcels whose next check is due; None where there is none."""
    return [group["_id"] for group in tracking.aggregate(due_slugs(now))]


def due_slugs(now: dt.datetime) -> list[Document]:
    """Group them so that MongoDB leaps from one slug to the next, past all parcels of each."""
    return [{"$match": _due(now)}, {"$group": {"_id": "$slug"}}]


def due_for_check(
    tracking: Collection[Document],
    slug: object,
    now: dt.datetime,
    limit: int,
    but: Sequence[object] = (),
) -> list[Document]:
    """List active parcels of a slug whose next check is due, the longest due first.

    `but`: the `_id`s of documents to leave out.
    """
    names = ("slug", "tracking_number", "fields", "account", "next_check_at")
    wanted = _due(now) | {"slug": {"$eq": slug}} | ({"_id": {"$nin": but}} if but else {})
    order = [("next_check_at", ASCENDING)]
    return list(tracking.find(wanted, names, sort=order, limit=limit, batch_size=limit))


def put_off_checks(
    tracking: Collection[Document], names: Sequence[str], now: dt.datetime, until: dt.datetime
) -> list[Refusal]:
    """Move checks that were put on the tube; only those that nobody has moved on since `now`.

    Returns what MongoDB refuses: these documents stay due.
    """
    wanted = {"_id": {"$in": names}, "next_check_at": {"$lte": now}}
    return change_each(tracking, wanted, {"$set": {"next_check_at": until}})[1]


def end_checks(
    tracking: Collection[Document], names: Sequence[str], now: dt.datetime | None = None
) -> list[Refusal]:
    """End the checks of parcels, until somebody asks again; with `now` as `put_off_checks` does."""
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
