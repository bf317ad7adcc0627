"""Operations that only the archive knows: their ends are known in Redis for a day at most."""

from __future__ import annotations

from collections.abc import Sequence

from limits.operations import Operation
from service.client.connections import collections_of
from service.config.schema import Config
from service.results.database import Document
from service.results.dead import newest_records
from service.results.operations import find_operation, operation_in, operations_of
from tracking.request import Number, Slug


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
