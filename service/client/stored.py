"""What MongoDB keeps of parcels and of operations, read for a process that serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from service.client.archived import in_order
from service.client.connections import collections_of
from service.config.schema import Config
from service.results.database import Collections, Document, in_thread
from service.results.dead import newest_records
from service.results.document import fields_in, parcel_in
from service.results.operations import find_operation, find_operations, operation_in, operations_of
from service.results.queries import find_tracking
from tracking.account import MAIN, Account
from tracking.request import Number, Slug

__all__ = ["PRIVATE", "Stored", "fields_in", "open_stored", "shown"]

Members = dict[str, Any]

PRIVATE = frozenset({"fields", "account", "observed_us", "revision"})
"""What a document holds for us alone, and what one account may know of the receiver."""


class Stored:
    """Reads, on threads. Every method raises ResultsDown."""

    def __init__(self, stores: Collections) -> None:
        self.stores = stores

    async def tracking(
        self, slug: Slug, number: Number, account: Account = MAIN
    ) -> Document | None:
        """Find the document that an account has of a parcel, whole; None where it has none."""
        return await in_thread(find_tracking, self.stores.tracking, slug, number, account)

    async def operation(self, identity: str) -> Members | None:
        """Find the newest archived operation that had this id."""
        found = await in_thread(find_operation, self.stores.operations, identity)
        return operation_in(found) if found else None

    async def dead(self, identity: str) -> Document | None:
        """Find the newest record in `dead` of a request with this id."""
        found = await in_thread(newest_records, self.stores.dead, [identity])
        return found.get(identity)

    async def archived(self, ids: Sequence[str]) -> dict[str, Members]:
        """Find the newest archived operation of each id; what is not known is left out."""
        found = await in_thread(find_operations, self.stores.operations, ids)
        return {each["id"]: operation_in(each) for each in found}

    async def operations(
        self, slug: Slug, number: Number, known: Sequence[Members], account: Account | None
    ) -> list[Members]:
        """List those of a parcel (and an account), the newest first; `known` are those in Redis."""
        found = await in_thread(operations_of, self.stores.operations, slug, number, account)
        return in_order(known, [operation_in(each) for each in found])


def shown(document: Document) -> Document:
    """Take out of a document what leaves by no door: fields, and what a courier answered."""
    kept = {name: value for name, value in document.items() if name not in PRIVATE}
    kept["_id"] = parcel_in(kept["_id"])
    kept["attempts"] = [
        {name: value for name, value in each.items() if name != "excerpt"}
        for each in document.get("attempts") or ()
    ]
    return kept


@asynccontextmanager
async def open_stored(config: Config) -> AsyncIterator[Stored]:
    """Open what reads MongoDB; connects at the first question."""
    with collections_of(config) as stores:
        yield Stored(stores)
