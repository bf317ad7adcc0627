"""Requests that got no answer: found, put again or deleted, each with its buried job."""

from __future__ import annotations

from typing import Any

from pymongo.collection import Collection

from service.client.buried import buried_job, delete_buried
from service.client.kick import NotKicked, kick
from service.client.producer import Producer
from service.results.database import Document
from service.results.dead import Filter, count_by_reason, delete, find

__all__ = [
    "Document",
    "Filter",
    "NotKicked",
    "count_by_reason",
    "delete_dead",
    "find",
    "put_again",
    "shown",
]

Dead = Collection[Document]


def shown(document: Document) -> dict[str, Any]:
    """Make a record what JSON can say: its body as far as it is text."""
    body = document.get("body")
    text = body.decode("utf-8", "backslashreplace") if isinstance(body, bytes) else body
    return {**document, "_id": str(document["_id"]), "body": text}


def put_again(document: Document, dead: Dead, producer: Producer) -> str | None:
    """Put the request of a record again, then delete the record; returns the id it was put with.

    Raises NotKicked, StoreError: the record stays. Better twice than never.
    """
    identity = kick(document, producer)
    delete(dead, Filter(ids=(document["_id"],)))
    return identity


def delete_dead(document: Document, dead: Dead, producer: Producer) -> int:
    """Delete a record after its buried job; returns how many records went.

    Raises StoreError: the record of a job that cannot be deleted stays.
    """
    if buried := buried_job(document, producer):
        delete_buried(buried, producer)
    return delete(dead, Filter(ids=(document["_id"],)))
