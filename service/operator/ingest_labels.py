"""What MongoDB knows of ingest labels: their key, and what a door answers by itself under each.

The key is one document beside those of accounts' keys, made once by the first who needs it. A label
made under a key that was lost would lead nowhere, so a majority holds it before anybody has it.
"""

from __future__ import annotations

import secrets
from dataclasses import fields

import msgspec
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from service.operator.connections import Collections
from service.worker.deliveries.ingest_label import KEY_BYTES, IngestLabel
from service.worker.deliveries.service import NOT_DELETED, Ingest, ServiceType
from service.worker.results.database import Document
from tracking.request import Account

INGEST_KEY = "ingest"
"""The `_id` of the key's document in `keys`; no account's key is called so."""

_HAVE_LABELS = {"$in": [ServiceType.RELAY.value, ServiceType.COURIER.value]}

_READ = dict.fromkeys(("account", "name"), 1) | {
    f"ingest.{each.name}": 1 for each in fields(Ingest) if each.name != "push_secret"
}
"""A door verifies no pushes, so that it reads no secret for that."""


def ingest_key(stores: Collections) -> bytes:
    """Give the key of ingest labels; made here where there is none. Raises PyMongoError."""
    made = {"key": secrets.token_bytes(KEY_BYTES)}
    found: Document | None = None
    while found is None:
        try:
            found = stores.keys.find_one_and_update(
                {"_id": INGEST_KEY},
                {"$setOnInsert": made},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:  # somebody else made it at the same time
            continue
    return bytes(found["key"])


def key_in(document: Document) -> bytes:
    """Read the key out of a document of `keys`; b"" for all others."""
    is_key = document["_id"] == INGEST_KEY and isinstance(document.get("key"), bytes)
    return document["key"] if is_key else b""


def ingests_of(stores: Collections) -> dict[str, Ingest]:
    """Read how services take requests, by their labels. Raises PyMongoError."""
    found = stores.services.find({**NOT_DELETED, "type": _HAVE_LABELS}, _READ)
    return dict(pair for each in found for pair in _ingest_in(each))


def _ingest_in(document: Document) -> list[tuple[str, Ingest]]:
    """Read one; nothing where it was not written by this service."""
    try:
        ingest = msgspec.convert(document["ingest"], Ingest)
        label = IngestLabel(Account(document["account"]), document["name"], ingest.random)
    except (LookupError, msgspec.ValidationError):
        return []
    return [(str(label), ingest)]
