"""Parcels and ended operations, read from MongoDB: for one verb, or for a process that serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from limits.admin.operations import Operation
from service.config.schema import Config
from service.operator.connections import collections_of
from service.worker.results.database import Collections, Document, in_thread
from service.worker.results.dead import newest_records
from service.worker.results.document import fields_in, parcel_in
from service.worker.results.operations import (
    find_operation,
    find_operations,
    operation_in,
    operations_of,
)
from service.worker.results.queries import find_tracking
from tracking.request import MAIN, Account, Number, Slug

__all__ = ["fields_in"]

PRIVATE = frozenset({"fields", "account", "observed_us", "revision", "check_pace", "untold"})
"""What a document holds for us alone, and what one account may know of the receiver."""


class Stored:
    """Reads MongoDB in threads, for a process that serves. Every method raises ResultsDown."""

    def __init__(self, stores: Collections) -> None:
        self.stores = stores

    async def tracking(
        self, slug: Slug, number: Number, account: Account = MAIN
    ) -> Document | None:
        """Find the document that an account has of a parcel, whole; None where it has none."""
        return await in_thread(find_tracking, self.stores.tracking, slug, number, account)

    async def operation(self, identity: str) -> Operation | None:
        """Find the newest archived operation that had this id."""
        found = await in_thread(find_operation, self.stores.operations, identity)
        return operation_in(found) if found else None

    async def dead(self, identity: str) -> Document | None:
        """Find the newest record in `dead` of a request with this id."""
        found = await in_thread(newest_records, self.stores.dead, [identity])
        return found.get(identity)

    async def archived(self, ids: Sequence[str]) -> dict[str, Operation]:
        """Find the newest archived operation of each id; what is not known is left out."""
        found = await in_thread(find_operations, self.stores.operations, ids)
        return {each["id"]: operation_in(each) for each in found}

    async def operations(
        self, slug: Slug, number: Number, known: Sequence[Operation], account: Account | None
    ) -> list[Operation]:
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


def kept_operation(config: Config, identity: str) -> tuple[Operation | None, Document | None]:
    """Find the newest operation that had this id; without one, the newest record of it in `dead`.

    Raises ResultsDown.
    """
    with collections_of(config) as stores:
        if found := find_operation(stores.operations, identity):
            return operation_in(found), None
        return None, newest_records(stores.dead, [identity]).get(identity)


def dead_of(config: Config, ids: Sequence[str]) -> dict[str, Document]:
    """Find the newest record in `dead` of each id that has one. Raises ResultsDown."""
    with collections_of(config) as stores:
        return newest_records(stores.dead, ids)


def with_archived(
    config: Config, slug: Slug, number: Number, known: Sequence[Operation]
) -> list[Operation]:
    """List the operations of a parcel, the newest first: those that Redis knows, then older ones.

    Raises ResultsDown.
    """
    with collections_of(config) as stores:
        archived = [operation_in(each) for each in operations_of(stores.operations, slug, number)]
    return in_order(known, archived)


def in_order(known: Sequence[Operation], archived: Sequence[Operation]) -> list[Operation]:
    """List operations that Redis knows, then older ones of the archive.

    Of those whose end Redis does not know any more the archive tells it.
    """
    ends = {each["id"]: each for each in reversed(archived)}
    listed = [ends.get(each["id"], each) if each["status"] is None else each for each in known]
    there = {(each["id"], each.get("finishedAt")) for each in listed}
    return listed + [each for each in archived if (each["id"], each["finishedAt"]) not in there]
