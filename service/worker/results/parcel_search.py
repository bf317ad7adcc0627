"""A search of an account's parcels: by the beginnings of numbers, and by what it says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pymongo import ASCENDING
from pymongo.collection import Collection

from service.worker.results.database import Collections, Document
from service.worker.results.document import document_id, parcel_in
from service.worker.results.parcel_filter import BATCH, Which, ends_with_account, in_batches
from service.worker.results.shipments import LABEL, searched
from tracking.request import Account

_NUMBER = re.compile(r"[A-Z0-9][A-Z0-9 ._/-]{0,99}")

_LAST = "\uffff"


def found_by_words(stores: Collections, which: Which) -> Iterator[str]:
    """Find the `_id`s of documents by what is sought, each once. Raises PyMongoError."""
    if not which.search:
        yield from _said(stores, which.account, LABEL + searched(which.label), exactly=True)
        return
    if which.label:
        ids = found_by_words(stores, replace(which, label=""))
        for some in in_batches(ids):
            yield from _labelled(stores, which, some)
        return
    forms = tuple(_forms(which.search))
    if forms:
        yield from numbered(stores.tracking, which, forms)
    for name in _said(stores, which.account, searched(which.search), exactly=False):
        _, _, number = parcel_in(name).partition(":")
        if not number.startswith(forms):
            yield name


def numbered(tracking: Collection[Document], which: Which, forms: Sequence[str]) -> Iterator[str]:
    """Find numbers that begin so."""
    own = {"$regex": ends_with_account(which.account)}
    slugs = iter((which.slug,)) if which.slug else _slugs(tracking)
    for some in in_batches(slugs):
        firsts = [f"{slug}:{form}" for slug in some for form in forms]
        ranges = [{"_id": {"$gte": each, "$lt": each + _LAST, **own}} for each in firsts]
        wanted = {"$or": ranges}
        # Else all but the first hundred come at once, however few are read.
        for found in tracking.find(wanted, {"_id": 1}, hint="_id_", batch_size=BATCH):
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
    for each in stores.shipments.find(wanted, {"parcel": 1}, batch_size=BATCH):
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


def _forms(text: str) -> set[str]:
    """Write the beginning of a number in each form in which it may stand: some keep hyphens."""
    upper = text.strip().upper()
    forms = {upper, re.sub("[ \t-]", "", upper)}
    return {each for each in forms if each.isascii() and _NUMBER.fullmatch(each)}
