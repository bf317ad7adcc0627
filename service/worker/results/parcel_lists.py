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

What takes longer than SECONDS is given up (TooMuch): whoever asks names less.
"""

from __future__ import annotations

import datetime as dt
import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from operator import itemgetter
from typing import Any

import pymongo
from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection
from pymongo.errors import ExecutionTimeout, NetworkTimeout, OperationFailure

from service.worker.results.database import BY_CREATION, BY_UPDATE, EPOCH, Collections, Document
from service.worker.results.document import document_id, parcel_in
from service.worker.results.queries import COUNTED_MOST, paces_of
from service.worker.results.shipments import LABEL, searched
from tracking.checkpoint import Tag
from tracking.errors import ResultsDown
from tracking.request import MAIN, Account

SECONDS = 0.5
"""How long MongoDB may take for a page."""

PATIENT_SECONDS = 30.0
"""The same for some of all, where nobody waits for a page."""

SOUGHT_MOST = 1_000
"""Parcels among which a search sorts and pages: they are read for each page."""

LARGE = 50_000
"""An account with so many parcels has a good part of its couriers' numbers."""

BATCH = 500

Order = list[tuple[str, int]]

_NUMBER = re.compile(r"[A-Z0-9][A-Z0-9 ._/-]{0,99}")
_ENDED = frozenset({Tag.DELIVERED, Tag.EXPIRED})
"""Tags that no active parcel has."""

_NO_SUCH_HINT = 2
_LAST = "\uffff"


class TooMuch(Exception):
    """A list takes MongoDB too long; the text says what to do instead."""

    def __init__(self) -> None:
        super().__init__(
            "this is too much to look through at once: narrow it, by a tag, a courier, a later "
            "time, or more of the number"
        )


class Sort(StrEnum):
    """The order of a list; a minus begins with the newest."""

    UPDATED = "-updated"
    CHANGES = "updated"
    CREATED = "-created"
    FIRST = "created"
    NEXT = "next_check"

    @property
    def member(self) -> str:
        """The member of documents by which they are sorted."""
        return {"updated": "updated_at", "created": "created_at"}.get(
            self.removeprefix("-"), "next_check_at"
        )

    @property
    def direction(self) -> int:
        """As MongoDB writes it."""
        return DESCENDING if self.startswith("-") else ASCENDING


@dataclass(frozen=True, slots=True)
class Which:
    """Which parcels of an account are listed: those that agree with all that is given.

    `since`: changed from then on. `search` begins a number, or what the account says of a parcel;
    `label` is one of its labels. `after`: the last one of the page before, by its time and its
    parcel.
    """

    account: Account
    tags: tuple[Tag, ...] = ()
    slug: str = ""
    active: bool | None = None
    since: dt.datetime | None = None
    search: str = ""
    label: str = ""
    sort: Sort = Sort.UPDATED
    after: tuple[dt.datetime, str] | None = None

    @property
    def behind(self) -> tuple[dt.datetime, str] | None:
        """The last one of the page before, by its time and its `_id`."""
        return self.after and (self.after[0], document_id(self.after[1], self.account))

    @property
    def is_sought(self) -> bool:
        """Whether they are found by words."""
        return bool(self.search or self.label)


Members = Mapping[str, Any] | None
"""Which members of documents are read; None: all."""


def listed(
    stores: Collections, which: Which, most: int, members: Members = None
) -> tuple[list[Document], bool]:
    """List a page; true: more than SOUGHT_MOST were found, and it is of the first of them.

    Raises TooMuch, PyMongoError.
    """
    with _in_time():
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
        for ids in _batches(found_by_words(stores, which)):
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
    own = {**_whose(which.account), "tag": _in(_tags(which))}
    found = tracking.find(own, {"_id": 1}, limit=SOUGHT_MOST + 1, hint=_named(BY_UPDATE))
    few = [each["_id"] for each in found]
    if len(few) > SOUGHT_MOST and which.slug and _count(tracking, which.account) == LARGE:
        few = list(islice(_numbered(tracking, which, ("",)), SOUGHT_MOST + 1))
    return few if len(few) <= SOUGHT_MOST else None


def counted(tracking: Collection[Document], account: Account) -> dict[Tag, int]:
    """Count an account's parcels by tag, each up to COUNTED_MOST. Raises TooMuch, PyMongoError."""
    with _in_time():
        return {tag: _count(tracking, account, COUNTED_MOST, tag=tag.value) for tag in Tag}


def _count(tracking: Collection[Document], account: Account, most: int = LARGE, **more: str) -> int:
    """Count an account's parcels in the index.

    By the command itself: what drivers make of it is an aggregation, which takes thrice as long.
    """
    wanted = {**_whose(account), **more}
    told = tracking.database.command(
        "count", tracking.name, query=wanted, limit=most, hint=dict(_named(BY_UPDATE))
    )
    return int(told["n"])


def asked(which: Which) -> list[tuple[Document, Order]]:
    """Ask for what an index has in the order of the list.

    Behind a page at first for what is of the same instant: of both at once MongoDB may make a plan
    that sorts all.
    """
    order = _order_of(which)
    wanted = _both(_whose(which.account), _filters(which))
    if which.sort.member == "updated_at":
        wanted["tag"] = _in(_tags(which))
    if which.behind is None:
        return [(wanted, order)]
    (at, name), member = which.behind, which.sort.member
    sign = "$lt" if which.sort.direction == DESCENDING else "$gt"
    same = _both(wanted, {member: {"$eq": at}, "_id": {sign: name}})
    return [(same, order[1:]), (_both(wanted, {member: {sign: at}}), order)]


def _both(one: Document, other: Document) -> Document:
    """Join conditions, of which each member's are operators."""
    return one | {name: one.get(name, {}) | each for name, each in other.items()}


def found_by_words(stores: Collections, which: Which) -> Iterator[str]:
    """Find the `_id`s of documents by what is sought, each once. Raises PyMongoError."""
    if not which.search:
        yield from _said(stores, which.account, LABEL + searched(which.label), exactly=True)
        return
    if which.label:
        ids = found_by_words(stores, replace(which, label=""))
        for some in _batches(ids):
            yield from _labelled(stores, which, some)
        return
    forms = tuple(_forms(which.search))
    if forms:
        yield from _numbered(stores.tracking, which, forms)
    for name in _said(stores, which.account, searched(which.search), exactly=False):
        _, _, number = parcel_in(name).partition(":")
        if not number.startswith(forms):
            yield name


def _numbered(tracking: Collection[Document], which: Which, forms: Sequence[str]) -> Iterator[str]:
    """Find numbers that begin so."""
    own = {"$regex": _of(which.account)}
    slugs = iter((which.slug,)) if which.slug else _slugs(tracking)
    for some in _batches(slugs):
        firsts = [f"{slug}:{form}" for slug in some for form in forms]
        ranges = [{"_id": {"$gte": each, "$lt": each + _LAST, **own}} for each in firsts]
        for found in tracking.find({"$or": ranges}, {"_id": 1}, hint="_id_"):
            yield found["_id"]


def _slugs(tracking: Collection[Document]) -> Iterator[str]:
    """List the couriers of all parcels there are, by leaps through `_id`."""
    behind = ""
    while found := tracking.find_one(
        {"_id": {"$gte": behind}}, {"_id": 1}, sort=[("_id", ASCENDING)]
    ):
        slug, _, _ = found["_id"].partition(":")
        behind = f"{slug};"  # follows ":"
        yield slug


def _said(stores: Collections, account: Account, text: str, *, exactly: bool) -> Iterator[str]:
    """Find parcels by what their account says of them."""
    range_ = {"$eq": text} if exactly else {"$gte": text, "$lt": text + _LAST}
    wanted = {"account": account, "search": range_, "deleted": False}
    if not exactly:
        # A label stands there as what it is, too.
        wanted["search"] = {"$elemMatch": range_}
    for each in stores.shipments.find(wanted, {"parcel": 1}):
        yield document_id(each["parcel"], account)


def _labelled(stores: Collections, which: Which, ids: Sequence[str]) -> list[str]:
    wanted = {
        "account": which.account,
        "parcel": {"$in": list(map(parcel_in, ids))},
        "search": LABEL + searched(which.label),
        "deleted": False,
    }
    kept = {each["parcel"] for each in stores.shipments.find(wanted, {"parcel": 1})}
    return [each for each in ids if parcel_in(each) in kept]


def _by_next_check(tracking: Collection[Document], which: Which, most: int) -> list[Document]:
    """Read the first ones of each courier in the index of re-checks, and merge them."""
    planned: Document = {"active": True, "next_check_at": {"$gt": EPOCH}}
    slugs = [which.slug]
    if not which.slug:
        groups = [{"$match": planned}, {"$group": {"_id": "$slug"}}]
        slugs = [each["_id"] for each in tracking.aggregate(groups)]
    behind = which.behind or (EPOCH, "")
    cursors = []
    for slug in slugs:
        of_slug = planned | {"slug": {"$eq": slug}}
        paces = [each["_id"] for each in tracking.aggregate(paces_of(of_slug))]
        wanted: Document = {**of_slug, "check_pace": {"$in": paces}}
        wanted |= {"next_check_at": {"$gt": EPOCH, "$gte": behind[0]}}
        wanted |= {"_id": {"$regex": _of(which.account)}}
        wanted |= {"tag": _in(which.tags)} if which.tags else {}
        wanted |= {"updated_at": {"$gte": which.since}} if which.since else {}
        found = tracking.find(wanted, {"next_check_at": 1}, sort=_order_of(which))
        cursors.append(found.batch_size(max(most // 8, 5)))
    due = itemgetter("next_check_at", "_id")
    try:
        following = (each for each in heapq.merge(*cursors, key=due) if due(each) > behind)
        return list(islice(following, most))
    finally:
        for each in cursors:
            each.close()


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
    wanted: Document = {**_filters(replace(which, slug="")), "_id": {"$in": list(ids)}}
    if which.slug:
        wanted["slug"] = which.slug
    if which.tags:
        wanted["tag"] = _in(which.tags)
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


def _filters(which: Which) -> Document:
    wanted: Document = {}
    if which.slug:
        wanted["_id"] = {"$regex": f"^{re.escape(which.slug)}:"}
    if which.active is not None:
        wanted["active"] = {"$eq": which.active}
    if which.since is not None:
        wanted["updated_at"] = {"$gte": which.since}
    if which.tags and which.sort.member == "created_at":
        wanted["tag"] = _in(which.tags)
    return wanted


def _in(tags: Sequence[Tag]) -> Document:
    return {"$in": [each.value for each in tags]}


def _tags(which: Which) -> list[Tag]:
    """All that parcels of the list may have: the index has one after the other."""
    over = _ENDED if which.active or which.sort is Sort.NEXT else ()
    return [each for each in which.tags or tuple(Tag) if each not in over]


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    while some := list(islice(names, BATCH)):
        yield some


def _order_of(which: Which) -> Order:
    return [(which.sort.member, which.sort.direction), ("_id", which.sort.direction)]


def _index_of(which: Which) -> Sequence[str]:
    return BY_UPDATE if which.sort.member == "updated_at" else BY_CREATION


def _named(index: Sequence[str]) -> Order:
    """Name an index by its members: it may have been made under another name."""
    return [(member, ASCENDING) for member in index]


def _whose(account: Account) -> Document:
    return {"account": {"$eq": None if account == MAIN else account}}


def _of(account: Account) -> str:
    """The end of each `_id` of an account."""
    return "^[^@]*$" if account == MAIN else f"@{re.escape(account)}$"


def _forms(text: str) -> set[str]:
    """Write the beginning of a number in each form in which it may stand: some keep hyphens."""
    upper = text.strip().upper()
    forms = {upper, re.sub("[ \t-]", "", upper)}
    return {each for each in forms if each.isascii() and _NUMBER.fullmatch(each)}


@contextmanager
def _in_time() -> Iterator[None]:
    try:
        with pymongo.timeout(SECONDS):
            yield
    except (ExecutionTimeout, NetworkTimeout) as error:
        raise TooMuch from error
    except OperationFailure as error:
        if error.code == _NO_SUCH_HINT:
            why = "the lists of parcels have no index yet"
            raise ResultsDown(why, "Start a worker of this version, which makes it.") from error
        raise
