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
from collections.abc import Sequence
from functools import partial

from bson.raw_bson import RawBSONDocument
from pymongo import ASCENDING, UpdateOne
from pymongo.collection import Collection

from service.worker.results.connection import durable
from service.worker.results.database import Document, Refusal
from service.worker.results.failure import faults_of
from service.worker.results.forgetting import withdraw, written

BATCH_SIZE = 300
"""Documents that are tried again together."""

Stored = Document | RawBSONDocument


def insert_each(
    home: Collection[Document], documents: Sequence[Stored], *, doubted: bool = False
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
    """Put the longest refused documents of a collection where they belong. Returns how many.

    Raises PyMongoError.
    """
    refused = _aside_of(home)
    ours = refused.find({"collection": home.name}).sort("at", ASCENDING)
    found = list(ours.limit(BATCH_SIZE))
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
        withdraw(home, forgotten, (written(each["document"]) for each in taken))
        refused.delete_many({"_id": {"$in": [each["_id"] for each in taken]}})
    return len(taken)


def counted(refused: Collection[Document]) -> dict[str, tuple[int, str]]:
    """Count the refused documents of each collection, with the newest reason."""
    groups = refused.aggregate(
        [
            {"$sort": {"at": ASCENDING}},
            {"$group": {"_id": "$collection", "count": {"$sum": 1}, "why": {"$last": "$why"}}},
            {"$sort": {"_id": ASCENDING}},
        ]
    )
    return {each["_id"]: (each["count"], each["why"]) for each in groups}


def _aside_of(home: Collection[Document]) -> Collection[Document]:
    return home.database.get_collection("refused", write_concern=home.write_concern)


def _lacking(
    home: Collection[Document], refused: Collection[Document], documents: Sequence[Stored]
) -> list[Stored]:
    names = [each["_id"] for each in documents]
    there, aside = _durable(home, names), _durable(refused, [_name(home, each) for each in names])
    return [
        each
        for each, name in zip(documents, names, strict=True)
        if name not in there and _name(home, name) not in aside
    ]


def _durable(collection: Collection[Document], names: Sequence[str]) -> set[str]:
    """Find those of `_id`s that a majority has."""
    return {each["_id"] for each in durable(collection).find({"_id": {"$in": names}}, {"_id": 1})}


def _inserted(collection: Collection[Document], documents: Sequence[Stored]) -> dict[int, str]:
    """Insert documents. Returns the reason of each that is refused, by its index."""
    insert = partial(collection.insert_many, documents, ordered=False)
    return faults_of(insert).refused if documents else {}


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
