"""The collection `shipments`: an account's own words about a parcel, under AfterShip's names.

============ =======================================================================================
member       is
============ =======================================================================================
`_id`        its id, 32 hexadecimal digits or as its account chose it; of another account than
             `main`, `"<account>/<id>"`
account      whose it is
parcel       `"usps:9405…"`: its state stands in the document that its account has of the parcel
slug, number the two halves of `parcel`
words        what the account said of it, under AfterShip's names; what it did not say is missing.
             `custom_fields` is a list of `{name, value}`
completed    null, or `{reason, tag, subtag, at, event}`: the account said that it has ended
deleted      whether the account deleted it: then `words` is empty
search       by what it is found, in small letters: its number, and the words of orders, customers,
             titles and labels (`search_of`). Missing in one of before, until `fill_search`
retracks     how often its account had it asked for again
created_at   when it was made
updated_at   when its account last changed it
============ =======================================================================================

An account has one for a parcel, not counting deleted ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pymongo
from pymongo import DESCENDING, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from service.worker.results.database import UNBOUNDED_SECONDS, Collections, Document
from service.worker.results.document import document_id, parcel_in
from tracking.request import MAIN, NAME, Account, Origin, account_and_id, operation_id

RETURNING = ("Exception_010", "Exception_011")
"""Subtags of a parcel that goes back to its sender, and of one that came back."""

MAX_COUNT = 10_000
"""Beyond so many nobody counts: it would take as long as to read them all."""

SEARCHED = (
    "number",
    "words.title",
    "words.order_id",
    "words.customers.name",
    "words.customers.email",
    "words.customers.phone_number",
    "words.custom_fields.value",
)
"""Where a keyword is looked for."""

LABEL = "#"
"""Stands before a label in `search`, which has it without, too."""

SEARCH_MOST, SEARCH_LENGTH_MOST = 40, 100
"""Texts of one shipment, and characters of each."""

FILLED_AT_ONCE = 500


class Exists(Exception):
    """Another shipment has the same id (`same_id`), or is the account's for the same parcel."""

    def __init__(self, *, same_id: bool) -> None:
        super().__init__(same_id)
        self.same_id = same_id


class Position(NamedTuple):
    """The last shipment of a page, after which the next page begins."""

    created_at: datetime
    name: str


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters for the shipments of an account; an empty one or None matches all.

    `texts` are values that a member must have one of; a member of `words` may be a list.
    """

    account: Account
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    keyword: str = ""
    created: tuple[datetime | None, datetime | None] = (None, None)
    updated: tuple[datetime | None, datetime | None] = (None, None)
    tags: Sequence[str] = ()
    returning: bool | None = None


def make_indexes(shipments: Collection[Document]) -> None:
    """Make missing indexes. Repeating it changes nothing. Raises PyMongoError."""
    # Over millions of documents this takes minutes.
    with pymongo.timeout(UNBOUNDED_SECONDS):
        shipments.create_index(
            ["account", "parcel"], unique=True, partialFilterExpression={"deleted": False}
        )
        shipments.create_index(["account", "created_at", "_id"])
        shipments.create_index(["parcel"])
        _make_search_indexes(shipments)


def _make_search_indexes(shipments: Collection[Document]) -> None:
    shipments.create_index(["account", "search"])
    shipments.create_index(["updated_at"], name="search_new", partialFilterExpression=_NEW)


_NEW: Document = {"search": None}
"""Shipments that no search by words finds yet: a version before wrote them."""


def fill_search(shipments: Collection[Document]) -> bool:
    """Let some shipments of before be found by words; tells whether there may be more.

    Raises PyMongoError.
    """
    with pymongo.timeout(UNBOUNDED_SECONDS):
        _make_search_indexes(shipments)
    found = list(shipments.find(_NEW, ["number", "words", "updated_at"], limit=FILLED_AT_ONCE))
    changes = [
        UpdateOne(
            {"_id": each["_id"], "updated_at": each["updated_at"]},
            {"$set": {"search": search_of(each["number"], each["words"])}},
        )
        for each in found
    ]
    if changes:
        shipments.bulk_write(changes, ordered=False)
    return len(found) == FILLED_AT_ONCE


def search_of(number: str, words: Mapping[str, Any]) -> list[str]:
    """List what a shipment is found by: each text, and what begins with a later word of it."""
    labels = [str(each) for each in words.get("shipment_tags") or ()]
    texts = [number, words.get("order_id"), words.get("order_number"), words.get("title"), *labels]
    for each in words.get("customers") or ():
        texts += [each.get(name) for name in ("name", "email", "phone_number")]
    plain = [searched(text) for text in texts if text]
    later = [text[found.end() :] for text in plain for found in re.finditer(" ", text)]
    whole = [*plain, *(LABEL + searched(each) for each in labels), *later]
    return list(dict.fromkeys(filter(None, whole)))[:SEARCH_MOST]


def searched(text: str) -> str:
    """Write a text as it stands in `search`, and as it is looked for."""
    return " ".join(text.casefold().split())[:SEARCH_LENGTH_MOST]


def add(shipments: Collection[Document], document: Document) -> None:
    """Insert a shipment. Raises Exists, PyMongoError."""
    try:
        shipments.insert_one(document)
    except DuplicateKeyError as error:
        pattern = (error.details or {}).get("keyPattern", {})
        raise Exists(same_id="_id" in pattern) from error


def find(stores: Collections, wanted: Document) -> Document | None:
    """Find a shipment that is not deleted, with its parcel's document as `stored`; see `steps`.

    Raises PyMongoError.
    """
    joined = steps(stores, wanted["account"])
    found = stores.shipments.aggregate([{"$match": wanted | {"deleted": False}}, *joined])
    return next(iter(found), None)


def spoken_of(
    shipments: Collection[Document], account: Account, parcels: Sequence[str]
) -> dict[str, Document]:
    """Find what an account says of parcels, by their names. Raises PyMongoError."""
    wanted = {"account": account, "parcel": {"$in": list(parcels)}, "deleted": False}
    return {each["parcel"]: each["words"] for each in shipments.find(wanted, ["parcel", "words"])}


def page(
    stores: Collections, filters: Filters, most: int, after: Position | None
) -> list[Document]:
    """List shipments as `find` does, the newest first, `after` a position. Raises PyMongoError."""
    own, whole = conditions(filters)
    if after:
        own = {"$and": [own, _older(after)]}
    order = {"$sort": {"created_at": DESCENDING, "_id": DESCENDING}}
    joined, limit = steps(stores, filters.account), {"$limit": most}
    rest = [*joined, {"$match": whole}, limit] if whole else [limit, *joined]
    return list(stores.shipments.aggregate([{"$match": own}, order, *rest]))


def count(stores: Collections, filters: Filters) -> int:
    """Count shipments, up to MAX_COUNT. Raises PyMongoError."""
    own, whole = conditions(filters)
    rest = [*steps(stores, filters.account), {"$match": whole}] if whole else []
    counted = [{"$match": own}, *rest, {"$limit": MAX_COUNT}, {"$count": "total"}]
    return next((each["total"] for each in stores.shipments.aggregate(counted)), 0)


def change(
    shipments: Collection[Document], wanted: Document, made: Document | list[Document]
) -> bool:
    """Change a shipment that is not deleted. False: there is none. Raises Exists, PyMongoError."""
    try:
        return shipments.update_one(wanted | {"deleted": False}, made).matched_count > 0
    except DuplicateKeyError as error:
        raise Exists(same_id=False) from error


def asked_as(name: str) -> str:
    """Make the prefix of ids of operations for which the shipment of this `_id` asked."""
    account, identity = account_and_id(name)
    return operation_id(account, f"shipment-{identity}.")


def no_longer_followed(
    shipments: Collection[Document], operations: Collection[Document], names: Sequence[str]
) -> list[str]:
    """Select the documents whose account does not follow the parcel any more.

    Such an account has shipments of it, each completed or deleted, and no operation that is kept
    asked for it otherwise. Raises PyMongoError.
    """
    said: dict[str, list[Document]] = {}
    parcels = list(map(parcel_in, names))
    for each in shipments.find({"parcel": {"$in": parcels}}, {"words": 0}):
        account, _ = account_and_id(each["_id"])
        said.setdefault(document_id(each["parcel"], account), []).append(each)
    return [
        name
        for name in names
        if (own := said.get(name))
        and all(each["deleted"] or each["completed"] for each in own)
        and operations.find_one(_asked_otherwise(own), {"_id": 1}) is None
    ]


def _asked_otherwise(own: Sequence[Document]) -> Document:
    """Ask for operations of their account for which none of these shipments asked."""
    slug, _, number = own[0]["parcel"].partition(":")
    account, _ = account_and_id(own[0]["_id"])
    theirs = "|".join(re.escape(asked_as(each["_id"])) for each in own)
    asked = {"slug": slug, "number": number, "origin": Origin.MANUAL.value}
    if account == MAIN:
        return asked | {"id": {"$not": re.compile(f"^(?:{theirs}|{NAME.pattern}/)")}}
    return asked | {"id": {"$regex": f"^{account}/", "$not": re.compile(f"^(?:{theirs})")}}


def delete_of_account(shipments: Collection[Document], account: Account, at: datetime) -> int:
    """Mark the shipments of an account as deleted, and drop its words. Returns how many."""
    wanted = {"account": account, "deleted": False}
    return shipments.update_many(wanted, deletion(at)).modified_count


def deletion(at: datetime) -> Document:
    """The change that deletes a shipment."""
    return {"$set": {"deleted": True, "words": {}, "search": [], "updated_at": at}}


def conditions(filters: Filters) -> tuple[Document, Document]:
    """Express filters: on what stands in the shipment, and on what only `steps` find out."""
    own: Document = {"account": filters.account, "deleted": False}
    own |= {name: {"$in": list(texts)} for name, texts in filters.texts.items() if texts}
    if filters.keyword:
        looked = {"$regex": re.escape(filters.keyword), "$options": "i"}
        own["$or"] = [{name: looked} for name in SEARCHED]
    whole: Document = {}
    if filters.tags:
        whole["tag"] = {"$in": list(filters.tags)}
    if filters.returning is not None:
        whole["stored.checkpoints.subtag"] = {
            "$in" if filters.returning else "$nin": list(RETURNING)
        }
    own |= _between("created_at", filters.created)
    whole |= _between("changed_at", filters.updated)
    return own, whole


def steps(stores: Collections, account: Account) -> list[Document]:
    """Add its account's document as `stored`, and what follows from both: `tag`, `changed_at`."""
    own = {"$set": {"stored": {"$concat": ["$parcel", document_id("", account)]}}}
    return [
        *([] if account == MAIN else [own]),
        {
            "$lookup": {
                "from": stores.tracking.name,
                "localField": "parcel" if account == MAIN else "stored",
                "foreignField": "_id",
                "as": "stored",
            }
        },
        {"$set": {"stored": {"$first": "$stored"}}},
        {"$unset": ["stored.fields", "stored.attempts"]},
        {
            "$set": {
                "tag": {"$ifNull": ["$completed.tag", "$stored.tag", "Pending"]},
                "changed_at": {"$max": ["$updated_at", "$stored.updated_at"]},
            }
        },
    ]


def _between(name: str, bounds: tuple[datetime | None, datetime | None]) -> dict[str, Any]:
    least, most = bounds
    asked = {"$gte": least} if least else {}
    asked |= {"$lte": most} if most else {}
    return {name: asked} if asked else {}


def _older(than: Position) -> Document:
    same = {"created_at": than.created_at, "_id": {"$lt": than.name}}
    return {"$or": [{"created_at": {"$lt": than.created_at}}, same]}
