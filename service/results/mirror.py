"""Open operations in the collection `operations`: what waits in Redis, once more.

============ =======================================================================================
member       is
============ =======================================================================================
`_id`        its id alone: that of one that ended has its instant behind it
account, id, slug, number, origin, admitted_at       as of one that ended
state        `"WAITING"`, whatever became of it since
anonymous    true where its producer gave no id; the `_id` names its job then
body         its job, as it can be put again
============ =======================================================================================

It has no `finished_at`, by which readers of operations that ended pass it over, and purge does, and
by which it is found. Of requests without an id that are one operation each has a document. Written
before the job goes; deleted when the end of its operation is archived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pymongo
from pymongo import DeleteMany, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from service.observe.events import Event
from service.observe.log import emit
from service.results.batches import Batches
from service.results.connection import Document, Store
from service.results.failure import faults_in
from service.results.names import OPERATIONS
from service.results.operations import withdraw
from service.results.refused import Refusal
from tracking.account import account_and_id
from tracking.operation import State, anonymous_in, id_of
from tracking.request import TrackingRequest

OPEN: Document = {"finished_at": None}
"""Asks for open ones, of which the index on `finished_at` has nothing but the null."""

TOGETHER_MOST = 500
"""Documents of one batch."""

FREE_AGAIN = timedelta(days=1)
"""So long after the end of its operation an id may be used again: what is older has ended."""


class Mirror:
    """Implements `service.ports.Mirror`. One per process."""

    def __init__(self, store: Store, write_job: Callable[[TrackingRequest], bytes]) -> None:
        self._store = store
        self._write_job = write_job
        self._batches: Batches[Document, None] = Batches(self._write, TOGETHER_MOST)

    def add(self, request: TrackingRequest, job_key: str, at_us: int) -> asyncio.Future[None]:
        """Write down that a request waits. Awaited it raises ResultsDown: repeat it."""
        identity = id_of(request, job_key)
        return self._batches.submit(
            {
                "_id": identity,
                "account": account_and_id(identity)[0],
                "id": identity,
                "slug": request.slug,
                "number": request.number,
                "origin": str(request.origin),
                "state": str(State.WAITING),
                "admitted_at": datetime.fromtimestamp(at_us // 1000 / 1000, UTC),
                "anonymous": request.id is None,
                "body": self._write_job(request),
            }
        )

    async def _write(self, documents: list[Document]) -> Sequence[None]:
        # Beside answers, which must not wait for it.
        refused = await self._store.keep(partial(self._open, documents))
        for name, why in refused:
            emit(Event.REFUSED_DOCUMENT, collection=OPERATIONS, document=name, error=why)
        return [None] * len(documents)

    def _open(self, documents: Sequence[Document]) -> list[Refusal]:
        operations = self._store.operations
        refused = open_each(operations, documents)
        withdraw(operations, self._store.forgotten, documents)
        return refused


def open_each(operations: Collection[Document], documents: Sequence[Document]) -> list[Refusal]:
    """Write open ones; one that is there already stays. Tells which are refused.

    Raises PyMongoError.
    """
    try:
        operations.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        faults = faults_in(error)
        known = [documents[index] for index in faults.known]
        _replace_old(operations, known)
        return [(documents[index]["_id"], why) for index, why in faults.refused.items()]
    return []


def _replace_old(operations: Collection[Document], known: Iterable[Document]) -> None:
    """Write over what was left of an operation of before, which had the same id."""
    wanted = [
        ReplaceOne(
            {"_id": each["_id"], "admitted_at": {"$lt": each["admitted_at"] - FREE_AGAIN}}, each
        )
        for each in known
    ]
    if wanted:
        operations.bulk_write(wanted, ordered=False)


def close(operations: Collection[Document], ids: Sequence[str], ended: Iterable[Document]) -> None:
    """Delete the open ones of operations that ended. Raises PyMongoError: repeat it.

    `ended`: their documents, as far as they have any. Requests without an id are one operation from
    the first that came to the last, at whose arrival that says it was admitted.
    """
    wanted: list[DeleteMany] = []
    anonymous = {each["id"]: each for each in ended if anonymous_in(each["id"])}
    if anonymous:
        for first in operations.find({"_id": {"$in": list(anonymous)}}, {"body": 0}):
            last = anonymous[first["_id"]]["admitted_at"]
            wanted.append(
                DeleteMany(
                    {
                        "slug": first["slug"],
                        "number": first["number"],
                        "admitted_at": {"$gte": first["admitted_at"], "$lte": last},
                        "anonymous": True,
                    }
                )
            )
    operations.bulk_write([*wanted, DeleteMany({"_id": {"$in": ids}})], ordered=False)


def count_open(operations: Collection[Document]) -> int:
    """How many are open. Raises PyMongoError."""
    with pymongo.timeout(None):
        return operations.count_documents(OPEN)


def open_ones(operations: Collection[Document]) -> Iterator[list[Document]]:
    """All that are open, a batch at a time. Raises PyMongoError."""
    with pymongo.timeout(None):
        batch: list[Document] = []
        for each in operations.find(OPEN, batch_size=TOGETHER_MOST):
            batch.append(each)
            if len(batch) == TOGETHER_MOST:
                yield batch
                batch = []
        yield batch
