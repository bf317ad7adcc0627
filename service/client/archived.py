"""Operations that only the archive knows: their ends are known in Redis for a day at most."""

from __future__ import annotations

from collections.abc import Sequence

from limits.operations import Operation
from service.client.connections import collections_of
from service.config.schema import Config
from service.results.operations import find_operation, operations_of, told
from tracking.request import Number, Slug


def archived_operation(config: Config, identity: str) -> Operation | None:
    """Find the newest operation that had this id. Raises ResultsDown; None: none is archived."""
    with collections_of(config) as stores:
        found = find_operation(stores.operations, identity)
    return told(found) if found else None


def with_archived(
    config: Config, slug: Slug, number: Number, known: Sequence[Operation]
) -> list[Operation]:
    """List the operations of a parcel, the newest first: those that Redis knows, then older ones.

    Raises ResultsDown.
    """
    with collections_of(config) as stores:
        archived = [told(each) for each in operations_of(stores.operations, slug, number)]
    return in_order(known, archived)


def in_order(known: Sequence[Operation], archived: Sequence[Operation]) -> list[Operation]:
    """List operations that Redis knows, then older ones of the archive.

    Of those whose end Redis does not know any more the archive tells it.
    """
    ends = {each["id"]: each for each in reversed(archived)}
    listed = [ends.get(each["id"], each) if each["status"] is None else each for each in known]
    there = {(each["id"], each.get("finishedAt")) for each in listed}
    return listed + [each for each in archived if (each["id"], each["finishedAt"]) not in there]
