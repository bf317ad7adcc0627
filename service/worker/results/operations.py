"""The collection `operations`: each request's end, kept for months, and those not ended yet.

============ =======================================================================================
member       is
============ =======================================================================================
`_id`        `"<id>@<ms>"`: its id, and when it was admitted. An id is free again a day after the
             end of its operation, so one may stand here more than once
account      whose it is: `"main"`, or what stands before the `/` of its id
id           as it can be asked for: its producer's, `"<account>/<id>"`, `"<slug>:<number>:<job>"`
slug, number its parcel
origin       `"MANUAL"` or `"AUTOMATIC"`
state        SUCCESS, ERROR or CANCELLED
output       what its status told
resend_of    the id of the operation that it repeats, or null
webhook      the service that hears of its end, where its request named one
cancels      true where it does not if a held reply has told of it
put_at       when its producer put it, or null where it did not say so (`meta.enqueued_at`)
admitted_at  when a worker took it
started_at   when the call was granted that ended it, or null
finished_at  its end; it is purged so many days after it
attempts     the last calls that were made for it, oldest first: at, outcome, http_status, ms
============ =======================================================================================

Written by the archiver, a batch at a time; writing it again changes nothing.

With `[redis] mirror` there are open operations, too: what waits in Redis, once more.

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
from typing import Any

import bson
import msgspec
import pymongo
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import DESCENDING, DeleteMany, ReplaceOne
from pymongo.collection import Collection

from limits.admin.operations import LISTED_MOST, Made, Operation, iso, own_attempts
from limits.archive import BRIEF_MS, DAY_MS, Archived, Ended
from service.worker.results.connection import Batches, Store
from service.worker.results.database import (
    UNBOUNDED_SECONDS,
    Collections,
    Document,
    Refusal,
    log_refused,
)
from service.worker.results.failure import faults_of
from service.worker.results.forgetting import withdraw, written
from service.worker.results.refused import insert_each
from tracking.operation import ENDS, State, id_of
from tracking.request import MAIN, Account, Origin, TrackingRequest, account_and_id, anonymous_in

OPEN: Document = {"finished_at": None}
"""Asks for open ones, of which the index on `finished_at` has nothing but the null."""

BATCH_SIZE = 500
"""Open operations of one batch."""

FREE_AGAIN = timedelta(days=1)
"""So long after the end of its operation an id may be used again: what is older has ended."""


class NotArchivable(Exception):
    """The status of an operation is none that this service wrote."""


class _Status(msgspec.Struct):
    """The status that lua/lib/state.lua writes at an operation's end."""

    status: str
    at: int
    put: int | None = None
    tracking: str | None = None
    startedAt: datetime | None = None  # noqa: N815 - the contract's name
    output: dict[str, Any] | None = None
    auto: bool = False
    anonymous: bool = False
    resend_of: str | None = None
    webhook: str | None = None
    cancels: bool = False
    repliedAt: datetime | None = None  # noqa: N815 - the same
    attempts: list[Made] = []


_read = msgspec.json.Decoder(_Status).decode


def read_ended(ended: Ended) -> tuple[Document | None, Archived]:
    """Make the document of an ended operation, and what to report once it is stored.

    None instead of a document: its parcel was forgotten, or its status is none of an end. Raises
    NotArchivable.
    """
    if ended.status is None:
        return None, Archived(ended, None)
    try:
        status = _read(ended.status)
        if status.status not in ENDS:
            return None, Archived(ended, None)
        archived = Archived(ended, BRIEF_MS if status.auto or status.anonymous else DAY_MS)
        return (status.tracking and _document(ended, status, status.tracking)) or None, archived
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise NotArchivable(str(error)) from error


def _document(ended: Ended, status: _Status, parcel: str) -> Document:
    slug, _, number = parcel.partition(":")
    return {
        "_id": f"{ended.id}@{status.at}",
        "account": account_and_id(ended.id)[0],
        "id": ended.id,
        "slug": slug,
        "number": number,
        "origin": str(Origin.AUTOMATIC if status.auto else Origin.MANUAL),
        "state": status.status,
        "output": status.output,
        "resend_of": status.resend_of,
        "put_at": None if status.put is None else _date(status.put),
        "admitted_at": _date(status.at),
        "started_at": status.startedAt,
        "finished_at": _date(ended.at_ms),
        "attempts": own_attempts(
            status.attempts, status.at, anonymous=status.anonymous, instant=_date
        ),
        **({"replied_at": status.repliedAt} if status.repliedAt else {}),
        **({"webhook": status.webhook} if status.webhook else {}),
        **({"cancels": True} if status.cancels else {}),
    }


def operation_in(document: Document) -> Operation:
    """Read an archived operation in the form that Redis gives (limits/admin/operations.py)."""
    started = document.get("started_at")
    attempts = [
        each | {"at": iso(each["at"].timestamp() * 1000)} for each in document.get("attempts") or ()
    ]
    names = ("resend_of", "webhook", "cancels")
    kept = {name: document[name] for name in names if document.get(name)}
    replied = document.get("replied_at")
    return {
        "id": document["id"],
        "status": document["state"],
        "startedAt": started and iso(started.timestamp() * 1000),
        "finishedAt": iso(document["finished_at"].timestamp() * 1000),
        "output": document.get("output"),
        "tracking": f"{document['slug']}:{document['number']}",
        **kept,
        **({"attempts": attempts} if attempts else {}),
        **({"repliedAt": iso(replied.timestamp() * 1000)} if replied else {}),
    }


def archive_ended(
    stores: Collections, documents: Iterable[Document], *, doubted: bool = False
) -> tuple[list[Refusal], list[Refusal]]:
    """Store operations that ended, as `insert_each`. Raises PyMongoError.

    Returns which cannot be stored at all, and which MongoDB refuses.
    """
    storable: list[Document] = []
    encoded: list[RawBSONDocument] = []
    unstorable: list[Refusal] = []
    for each in documents:
        try:
            encoded.append(RawBSONDocument(bson.encode(each)))
            storable.append(each)
        except (BSONError, OverflowError, UnicodeError) as error:
            unstorable.append((each["id"], str(error)))
    if not encoded:
        return unstorable, []
    aside = insert_each(stores.operations, encoded, doubted=doubted)
    withdraw(stores.operations, stores.forgotten, map(written, storable))
    return unstorable, aside


def by_id(identity: str) -> Document:
    """Ask for all operations of an id: one range of `_id`. `@` is in no id, A is next to it."""
    return {"_id": {"$gte": f"{identity}@", "$lt": f"{identity}A"}}


def by_parcel(slug: str, number: str) -> Document:
    """Ask for all operations of a parcel: one range of the index on both."""
    return {"slug": {"$eq": slug}, "number": {"$eq": number}}


def find_operation(operations: Collection[Document], identity: str) -> Document | None:
    """Find the newest operation of an id. Raises PyMongoError."""
    return operations.find_one(by_id(identity), sort=[("_id", DESCENDING)])


def find_operations(operations: Collection[Document], ids: Sequence[str]) -> list[Document]:
    """Find the newest operation of each id, in no order. Raises PyMongoError."""
    found = operations.find({"$or": [by_id(each) for each in ids]}).sort("_id")
    return list({each["id"]: each for each in found}.values())


def operations_of(
    operations: Collection[Document],
    slug: str,
    number: str,
    account: Account | None = None,
    most: int = LISTED_MOST,
) -> list[Document]:
    """List the operations of a parcel, or an account's of it, the newest first.

    Raises PyMongoError.
    """
    wanted = by_parcel(slug, number)
    if account is not None:
        # Before there were accounts, nothing was written of them.
        wanted["account"] = {"$in": [account, *([None] if account == MAIN else ())]}
    # An open one, which `mirror` wrote, has not ended; Redis tells of it.
    wanted["state"] = {"$ne": State.WAITING.value}
    found = operations.find(wanted, limit=most, batch_size=most)
    return list(found.sort("admitted_at", DESCENDING))


class Mirror:
    """Writes open operations; implements `service.ports.Mirror`. One per process."""

    def __init__(self, store: Store, write_job: Callable[[TrackingRequest], bytes]) -> None:
        self._store = store
        self._write_job = write_job
        self._batches: Batches[Document, None] = Batches(self._write, BATCH_SIZE)

    def add(self, request: TrackingRequest, job_key: str, at_us: int) -> asyncio.Future[None]:
        """Write the open operation of a request. Awaited it raises ResultsDown: repeat it."""
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
        refused = await self._store.in_background(self._open, documents)
        log_refused(self._store.operations, refused)
        return [None] * len(documents)

    def _open(self, documents: Sequence[Document]) -> list[Refusal]:
        operations = self._store.operations
        faults = faults_of(partial(operations.insert_many, documents, ordered=False))
        # Written over is only what an earlier operation of the same id left.
        left_over = [
            ReplaceOne(
                {"_id": each["_id"], "admitted_at": {"$lt": each["admitted_at"] - FREE_AGAIN}}, each
            )
            for each in (documents[index] for index in faults.known)
        ]
        if left_over:
            operations.bulk_write(left_over, ordered=False)
        withdraw(operations, self._store.forgotten, map(written, documents))
        return [(documents[index]["_id"], why) for index, why in faults.refused.items()]


def close_open(
    operations: Collection[Document], ids: Sequence[str], ended: Iterable[Document]
) -> None:
    """Delete the open documents of operations that ended. Raises PyMongoError: repeat it.

    `ended`: their documents, as far as they have any. Requests without an id are one operation from
    the first that came to the last, at whose arrival that says it was admitted.
    """
    wanted: list[DeleteMany] = []
    anonymous = {each["id"]: each for each in ended if anonymous_in(each["id"])}
    if anonymous:
        for first in operations.find({"_id": {"$in": list(anonymous)}}, {"body": 0}):
            last = anonymous[first["_id"]]["admitted_at"]
            came = {"admitted_at": {"$gte": first["admitted_at"], "$lte": last}, "anonymous": True}
            wanted.append(DeleteMany(by_parcel(first["slug"], first["number"]) | came))
    operations.bulk_write([*wanted, DeleteMany({"_id": {"$in": ids}})], ordered=False)


def count_open(operations: Collection[Document]) -> int:
    """Count open operations. Raises PyMongoError."""
    with pymongo.timeout(UNBOUNDED_SECONDS):
        return operations.count_documents(OPEN)


def open_operations(operations: Collection[Document]) -> Iterator[list[Document]]:
    """List open operations, a batch at a time. Raises PyMongoError."""
    with pymongo.timeout(UNBOUNDED_SECONDS):
        batch: list[Document] = []
        for each in operations.find(OPEN, batch_size=BATCH_SIZE):
            batch.append(each)
            if len(batch) == BATCH_SIZE:
                yield batch
                batch = []
        yield batch


def _date(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
