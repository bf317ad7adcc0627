"""Lists of an account's parcels: filtered, sorted, a page at a time, each by an index.

===================== ============================================================================
a list                is read from
===================== ============================================================================
by `updated_at`       the index `BY_UPDATE`; its tags are merged, so that one or all are in order
by `created_at`       the index `BY_CREATION`
by `next_check_at`    the index of re-checks (database.py), a courier after the other, merged here
of what is sought     the ranges of `_id` that begin with the number, of each courier, and the index
                      on `search` of shipments; SOUGHT_MOST of them are sorted here
===================== ============================================================================

No index is there for the number, nor for the next check of an account: each would be written with
each store. `_id` holds courier, number and account, and the index of re-checks ends with it, so a
filter by courier or account is one on keys.

What takes longer than SECONDS is given up (TooMuch): who asks names less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

import pymongo
from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection

from service.worker.results.database import BY_CREATION, BY_UPDATE, EPOCH, Collections, Document
from service.worker.results.document import parcel_in
from service.worker.results.parcel_filter import (
    BATCH,
    Members,
    Order,
    Sort,
    TooMuch,
    Which,
    both,
    ends_with_account,
    filters_of,
    following,
    in_batches,
    in_time,
    of_account,
    tagged,
    tags_of,
)
from service.worker.results.parcel_search import found_by_words, numbered
from service.worker.results.queries import COUNTED_MOST, paces_of
from tracking.checkpoint import Tag
from tracking.request import Account

__all__ = ["Sort", "TooMuch", "Which"]

PATIENT_SECONDS = 30.0
"""The same for some of all, where nobody waits for a page."""

SOUGHT_MOST = 1_000
"""Parcels among which a search sorts and pages: they are read for each page."""

LARGE = 50_000
"""An account with so many parcels has a good part of its couriers' numbers."""


def listed(
    stores: Collections, which: Which, most: int, members: Members = None
) -> tuple[list[Document], bool]:
    """List a page; true: more than SOUGHT_MOST were found, and it is of the first of them.

    Raises TooMuch, PyMongoError.
    """
    with in_time():
        if which.is_sought:
            ids = list(islice(found_by_words(stores, which), SOUGHT_MOST + 1))
            page = _in_memory(stores.tracking, ids[:SOUGHT_MOST], which, most)
            return _whole(stores.tracking, page, members), len(ids) > SOUGHT_MOST
        return _page(stores.tracking, which, most, members), False


def every(stores: Collections, which: Which, members: Members) -> Iterator[list[Document]]:
    """List all, some at a time; in the order of the list, but what is sought. Raises PyMongoError.

    Each part may take PATIENT_SECONDS.
    """
    if which.is_sought:
        for ids in in_batches(found_by_words(stores, which)):
            yield list(stores.tracking.find(_among(ids, which), members))
        return
    while page := _patiently(stores.tracking, which, members):
        yield page
        which = replace(which, after=(page[-1][which.sort.member], parcel_in(page[-1]["_id"])))


def _patiently(tracking: Collection[Document], which: Which, members: Members) -> list[Document]:
    with pymongo.timeout(PATIENT_SECONDS):
        return _page(tracking, which, BATCH, members)


def _page(
    tracking: Collection[Document], which: Which, most: int, members: Members
) -> list[Document]:
    """List a page of what is not sought."""
    few = _few(tracking, which)
    if few is not None:
        return _whole(tracking, _in_memory(tracking, few, which, most), members)
    if which.sort is Sort.NEXT:
        return _whole(tracking, _by_next_check(tracking, which, most), members)
    page: list[Document] = []
    for wanted, order in asked(which):
        if left := most - len(page):
            by = _named(_index_of(which))
            page += tracking.find(wanted, members, sort=order, limit=left, hint=by).batch_size(left)
    return page


def _few(tracking: Collection[Document], which: Which) -> list[str] | None:
    """Name all that may be meant, where these are so few that they are sorted here.

    Else one might look through all of an account for what is rare.
    """
    in_order = which.sort.member == "updated_at" or not which.tags
    if in_order and which.sort is not Sort.NEXT and not which.slug:
        return None
    own = {**of_account(which.account), "tag": tagged(tags_of(which))}
    found = tracking.find(own, {"_id": 1}, limit=SOUGHT_MOST + 1, hint=_named(BY_UPDATE))
    few = [each["_id"] for each in found]
    if len(few) > SOUGHT_MOST and which.slug and _count(tracking, which.account) == LARGE:
        few = list(islice(numbered(tracking, which, ("",)), SOUGHT_MOST + 1))
    return few if len(few) <= SOUGHT_MOST else None


def counted(tracking: Collection[Document], account: Account) -> dict[Tag, int]:
    """Count an account's parcels by tag, each up to COUNTED_MOST. Raises TooMuch, PyMongoError."""
    with in_time():
        return {tag: _count(tracking, account, COUNTED_MOST, tag=tag.value) for tag in Tag}


def _count(tracking: Collection[Document], account: Account, most: int = LARGE, **more: str) -> int:
    """Count an account's parcels in the index.

    By the command itself: what drivers make of it is an aggregation, which takes thrice as long.
    """
    wanted = {**of_account(account), **more}
    told = tracking.database.command(
        "count", tracking.name, query=wanted, limit=most, hint=dict(_named(BY_UPDATE))
    )
    return int(told["n"])


def asked(which: Which) -> list[tuple[Document, Order]]:
    """Ask for what an index has in the order of the list.

    Behind a page at first for what is of the same instant: of both at once MongoDB may make a plan
    that sorts all.
    """
    wanted = both(of_account(which.account), filters_of(which))
    if which.sort.member == "updated_at":
        wanted["tag"] = tagged(tags_of(which))
    return [(both(wanted, behind), order) for behind, order in following(which)]


def _by_next_check(tracking: Collection[Document], which: Which, most: int) -> list[Document]:
    """Read the first ones of each courier in the index of re-checks, and sort them."""
    planned: Document = {"active": {"$eq": True}, "next_check_at": {"$gt": EPOCH}}
    slugs: list[object] = [which.slug]
    if not which.slug:
        groups = [{"$match": planned}, {"$group": {"_id": "$slug"}}]
        slugs = [each["_id"] for each in tracking.aggregate(groups)]
    of_slugs = {slug: planned | {"slug": {"$eq": slug}} for slug in slugs}
    paces: dict[object, list[object]] = {slug: [] for slug in slugs}
    named = ({"$project": {"slug": {"$literal": slug}, "_id": 1}} for slug in slugs)
    groups_of: list[list[Document]] = [
        [*paces_of(each), name] for each, name in zip(of_slugs.values(), named, strict=True)
    ]
    for each in _all_of(tracking, groups_of):
        paces[each["slug"]].append(each["_id"])
    own: Document = {"_id": {"$regex": ends_with_account(which.account)}}
    own |= {"tag": tagged(which.tags)} if which.tags else {}
    own |= {"updated_at": {"$gte": which.since}} if which.since else {}
    due: list[list[Document]] = [
        [
            {"$match": both(own | wanted | {"check_pace": {"$in": paces[slug]}}, behind)},
            {"$sort": dict(order)},
            {"$limit": most},
            {"$project": {"next_check_at": 1}},
        ]
        for slug, wanted in of_slugs.items()
        for behind, order in following(which)
    ]
    return sorted(_all_of(tracking, due), key=itemgetter("next_check_at", "_id"))[:most]


def _all_of(
    tracking: Collection[Document], pipelines: Iterable[list[Document]]
) -> Iterator[Document]:
    """Ask several things at once: there and back takes longer than an answer."""
    for some in in_batches(iter(pipelines)):
        first, *others = some
        joined = [{"$unionWith": {"coll": tracking.name, "pipeline": each}} for each in others]
        yield from tracking.aggregate([*first, *joined])


def _in_memory(
    tracking: Collection[Document], ids: Sequence[str], which: Which, most: int
) -> list[Document]:
    """Sort a few here, and take a page of them."""
    member = which.sort.member
    found = tracking.find(_among(ids, which), {member: 1}, hint="_id_")
    there = [(each[member], each["_id"]) for each in found if each.get(member)]
    backwards = which.sort.direction == DESCENDING
    if behind := which.behind:
        there = [each for each in there if (each < behind if backwards else each > behind)]
    ordered = sorted(there, reverse=backwards)
    return [{"_id": name} for _, name in ordered[:most]]


def _among(ids: Sequence[str], which: Which) -> Document:
    wanted: Document = {**filters_of(replace(which, slug="")), "_id": {"$in": list(ids)}}
    if which.slug:
        wanted["slug"] = which.slug
    if which.tags:
        wanted["tag"] = tagged(which.tags)
    if which.sort is Sort.NEXT:
        wanted["next_check_at"] = {"$gt": EPOCH}
    return wanted


def _whole(
    tracking: Collection[Document], page: Sequence[Document], members: Members
) -> list[Document]:
    """Read the documents of a page, in its order; one that has gone meanwhile is left out."""
    names = [each["_id"] for each in page]
    found = {each["_id"]: each for each in tracking.find({"_id": {"$in": names}}, members)}
    return [found[name] for name in names if name in found]


def _index_of(which: Which) -> Sequence[str]:
    return BY_UPDATE if which.sort.member == "updated_at" else BY_CREATION


def _named(index: Sequence[str]) -> Order:
    """Name an index by its members: it may have been made under another name."""
    return [(member, ASCENDING) for member in index]
