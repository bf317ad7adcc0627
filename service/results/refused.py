"""The collection `refused`: documents that MongoDB does not take where they belong, until it does.

============ =======================================================================================
member       is
============ =======================================================================================
`_id`        `"<collection>:<_id>"`, of the document
collection   where it belongs: that of operations, or of dead requests
document     the document, as it would stand there
why          MongoDB's reason, in its own words: a validator, or a unique index of others
at           when it was last refused
============ =======================================================================================

One document that is refused must neither hold up the others nor be lost. The process that archives
tries each again, every ten minutes, in the order of `at`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo import ASCENDING, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, WriteError
from pymongo.read_concern import ReadConcern

from service.results.connection import Document
from service.results.failure import faults_in, refuses_writes
from service.results.forgetting import NEVER, Marks, Parcel
from service.results.names import REFUSED

TOGETHER_MOST = 300
"""Documents that are tried again together."""

Stored = Document | RawBSONDocument

Refusal = tuple[str, str]
"""The `_id` of a document, and why it is refused."""


def insert_each(
    home: Collection[Document],
    documents: Sequence[Stored],
    *,
    doubted: bool = False,
) -> list[Refusal]:
    """Insert documents where they belong; one that is there already stays as it is.

    What MongoDB refuses is kept in `refused`, and returned. `doubted`: a try before was not
    confirmed; what a majority has of it is not written again, which would wait for all that others
    write meanwhile. Raises PyMongoError: repeat it.
    """
    refused = _aside_of(home)
    left = _lacking(home, refused, documents) if doubted else documents
    why = _inserted(home, left)
    if why:
        _inserted(refused, [_kept(home, left[index], text) for index, text in why.items()])
    return [(left[index]["_id"], text) for index, text in why.items()]


def try_again(home: Collection[Document], forgotten: Collection[Document]) -> int:
    """Put the longest refused documents of a collection where they belong; tells how many.

    Raises PyMongoError.
    """
    refused = _aside_of(home)
    ours = refused.find({"collection": home.name}).sort("at", ASCENDING)
    found = list(ours.limit(TOGETHER_MOST))
    why = _inserted(home, [each["document"] for each in found])
    now = dt.datetime.now(dt.UTC)
    again = [
        UpdateOne({"_id": found[index]["_id"]}, {"$set": {"at": now, "why": text}})
        for index, text in why.items()
    ]
    if again:
        refused.bulk_write(again, ordered=False)
    taken = [each for index, each in enumerate(found) if index not in why]
    if taken:
        _withdraw(home, forgotten, [each["document"] for each in taken])
        refused.delete_many({"_id": {"$in": [each["_id"] for each in taken]}})
    return len(taken)


def change_each(
    collection: Collection[Document],
    wanted: Document,
    change: Document,
    filters: list[Mapping[str, Any]] | None = None,
) -> tuple[int, list[Refusal]]:
    """Change documents, asked for by `_id` and more: how many changed, and which are refused.

    One that is refused stays as it is, and ends what MongoDB does in one command: then each is
    changed alone. Raises PyMongoError.
    """
    try:
        done = collection.update_many(wanted, change, array_filters=filters, hint="_id_")
    except WriteError as error:
        if refuses_writes(error):
            raise
        names = wanted["_id"]["$in"]
        alone = [
            UpdateOne({**wanted, "_id": each}, change, array_filters=filters) for each in names
        ]
        try:
            return collection.bulk_write(alone, ordered=False).modified_count, []
        except BulkWriteError as faults:
            refused = faults_in(faults).refused
            return faults.details["nModified"], [(names[n], why) for n, why in refused.items()]
    return done.modified_count, []


def upsert_each(collection: Collection[Document], changes: Mapping[str, Document]) -> list[Refusal]:
    """Change documents by `_id`, or make them; tells which are refused. Raises PyMongoError."""
    names = list(changes)
    if not names:
        return []
    wanted = [UpdateOne({"_id": each}, changes[each], upsert=True) for each in names]
    try:
        collection.bulk_write(wanted, ordered=False)
    except BulkWriteError as error:
        return [(names[index], why) for index, why in faults_in(error).refused.items()]
    return []


def counted(refused: Collection[Document]) -> dict[str, tuple[int, str]]:
    """How many documents of each collection are refused, and why the latest was."""
    groups = refused.aggregate(
        [
            {"$sort": {"at": ASCENDING}},
            {"$group": {"_id": "$collection", "count": {"$sum": 1}, "why": {"$last": "$why"}}},
            {"$sort": {"_id": ASCENDING}},
        ]
    )
    return {each["_id"]: (each["count"], each["why"]) for each in groups}


def forget_refused(refused: Collection[Document], parcel: Parcel) -> int:
    """Delete what is kept of a parcel; tells how many."""
    named = {"document.slug": parcel.slug, "document.number": parcel.number}
    return refused.delete_many(named).deleted_count


def _aside_of(home: Collection[Document]) -> Collection[Document]:
    return home.database.get_collection(REFUSED, write_concern=home.write_concern)


def _withdraw(
    home: Collection[Document], forgotten: Collection[Document], documents: Sequence[Document]
) -> None:
    """Delete again what was forgotten meanwhile: `forget` makes its mark before it deletes."""
    parcels = {each["_id"]: f"{each['slug']}:{each['number']}" for each in documents}
    marks = Marks(forgotten).of(set(parcels.values()))
    for each in documents:
        began = each.get("admitted_at") or each["at"]
        if began.timestamp() * 1_000_000 <= marks.get(parcels[each["_id"]], NEVER):
            home.delete_one({"_id": each["_id"]})


def _lacking(
    home: Collection[Document],
    refused: Collection[Document],
    documents: Sequence[Stored],
) -> list[Stored]:
    names = [each["_id"] for each in documents]
    durable = ReadConcern("majority")
    there = home.with_options(read_concern=durable).find({"_id": {"$in": names}}, {"_id": 1})
    kept = {_name(home, name): name for name in names}
    aside = refused.with_options(read_concern=durable).find(
        {"_id": {"$in": list(kept)}}, {"_id": 1}
    )
    known = {each["_id"] for each in there} | {kept[each["_id"]] for each in aside}
    return [each for each in documents if each["_id"] not in known]


def _inserted(collection: Collection[Document], documents: Sequence[Stored]) -> dict[int, str]:
    """Insert; tells which are refused, and why."""
    if not documents:
        return {}
    try:
        collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        return faults_in(error).refused
    return {}


def _kept(home: Collection[Document], document: Stored, why: str) -> Document:
    return {
        "_id": _name(home, document["_id"]),
        "collection": home.name,
        "document": document,
        "why": why,
        "at": dt.datetime.now(dt.UTC),
    }


def _name(home: Collection[Document], name: str) -> str:
    return f"{home.name}:{name}"
