"""The collection `dead`: a record of each dead request, written before its job goes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection

from service.worker.results.connection import CONFIRM_SECONDS, Batches, Store, patiently
from service.worker.results.database import Document, Refusal, log_refused
from service.worker.results.document import body_in, clean, text_of
from service.worker.results.forgetting import Written, withdraw
from service.worker.results.queries import count_in_time
from service.worker.results.refused import insert_each
from tracking.call import DeadLetter
from tracking.request import MAIN, NAME, Account

MAX_BODY_BYTES = 4_096
"""More than any request needs that is written in ASCII."""

MAX_DETAIL_BYTES = 1_024
MAX_NAME_BYTES = 100

_NEWEST_FIRST = [("at", DESCENDING), ("_id", DESCENDING)]


class Dead:
    """Implements `service.ports.DeadLetters`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: Batches[Sequence[DeadLetter], None] = Batches(self._record)
        self._doubted = False

    async def record(self, letters: Sequence[DeadLetter]) -> None:
        """Record letters; one that is there already stays as it is. Raises ResultsDown."""
        await self._records.submit(letters)

    async def _record(self, batch: Sequence[Sequence[DeadLetter]]) -> list[None]:
        letters = list(chain.from_iterable(batch))
        doubted, self._doubted = self._doubted, True
        step = partial(record, self._store.dead, letters, doubted=doubted)
        refused = await self._store.on_writer(patiently, CONFIRM_SECONDS, step)
        log_refused(self._store.dead, refused)
        self._doubted = False
        calls = [
            Written(each.id, f"{each.slug}:{each.number}", each.granted_us)
            for each in letters
            if each.granted_us is not None
        ]
        await self._store.on_writer(withdraw, self._store.dead, self._store.forgotten, calls)
        return [None] * len(batch)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of records: those that agree with everything given.

    `operation` is an id that was given up, or that of a record; `since`: recorded then or later;
    `behind`: of `find`, only what follows the record of that time and id.
    """

    ids: tuple[str, ...] = ()
    slug: str | None = None
    reason: str | None = None
    number: str | None = None
    operation: str | None = None
    since: dt.datetime | None = None
    account: Account | None = None
    behind: tuple[dt.datetime, str] | None = None

    def query(self) -> dict[str, Any]:
        """Express it for MongoDB. Values are compared as they are, never as operators."""
        equal = {"slug": self.slug, "reason": self.reason, "number": self.number}
        wanted: dict[str, Any] = {k: {"$eq": v} for k, v in equal.items() if v is not None}
        if self.ids:
            wanted["_id"] = {"$in": list(self.ids)}
        if self.operation is not None:
            named = {"$eq": self.operation}
            wanted["$or"] = [{"operations": named}, {"_id": named}]
        if self.account is not None:
            wanted["$and"] = [_of_account(self.account)]
        at: dict[str, Any] = {} if self.since is None else {"$gte": self.since}
        if self.behind is not None:
            last, identity = self.behind
            at["$lte"] = last
            wanted["$nor"] = [{"at": last, "_id": {"$gte": identity}}]
        return wanted | ({"at": at} if at else {})


def _of_account(account: Account) -> dict[str, Any]:
    """Find records with an operation of an account; those that name none are `main`'s."""
    if account != MAIN:
        return {"operations": {"$regex": f"^{account}/"}}
    others = {"$regex": f"^{NAME.pattern}/"}
    named = {"operations": {"$elemMatch": {"$not": others}}}
    return {"$or": [named, {"operations": {"$in": [None, []]}}]}


def record(
    dead: Collection[Document], letters: Iterable[DeadLetter], *, doubted: bool = False
) -> list[Refusal]:
    """Insert letters, by their ids once; as `insert_each`."""
    documents = [document_of(letter) for letter in letters]
    return insert_each(dead, documents, doubted=doubted)


def find(dead: Collection[Document], wanted: Filter, limit: int = 0) -> list[Document]:
    """List the records that are meant, newest first; `limit` 0 for all."""
    return list(dead.find(wanted.query()).sort(_NEWEST_FIRST).limit(limit))


def by_operations(ids: Sequence[str]) -> dict[str, Any]:
    """Ask for all records of operations: one range of an index for each id."""
    return {"operations": {"$in": list(ids)}}


def newest_records(dead: Collection[Document], ids: Sequence[str]) -> dict[str, Document]:
    """Find the newest record of each operation; one of which there is none is left out."""
    found = dead.find(by_operations(ids)).sort([("at", ASCENDING)])
    return {name: each for each in found for name in each["operations"] if name in ids}


def records_of(dead: Collection[Document], server: str, jobs: Iterable[int]) -> list[Document]:
    """List the records that name these jobs of a server; see `is_about`."""
    return list(dead.find({"server": {"$eq": server}, "job": {"$in": list(jobs)}}))


def is_about(document: Document, body: bytes) -> bool:
    """Whether a record that names a job's id is of this job, and not of one before it."""
    return body_in(document) == body[:MAX_BODY_BYTES]


def count(dead: Collection[Document], wanted: Filter, most: int) -> int | None:
    """Count the records that are meant, as `count_in_time`."""
    return count_in_time(dead, wanted.query(), most)


def delete(dead: Collection[Document], wanted: Filter) -> int:
    """Delete the records that are meant. Returns how many."""
    return dead.delete_many(wanted.query()).deleted_count


def count_by_reason(dead: Collection[Document]) -> Mapping[str, int]:
    """Count the records of each reason, the most frequent first."""
    groups = dead.aggregate(
        [{"$group": {"_id": "$reason", "count": {"$sum": 1}}}, {"$sort": {"count": -1, "_id": 1}}]
    )
    return {group["_id"]: group["count"] for group in groups}


def document_of(letter: DeadLetter) -> Document:
    """Make the record of a dead request."""
    return {
        "_id": letter.id,
        "slug": letter.slug and clean(letter.slug, MAX_NAME_BYTES),
        "number": letter.number and clean(letter.number, MAX_NAME_BYTES),
        "operations": list(letter.operations),
        "reason": letter.reason,
        "detail": clean(letter.detail, MAX_DETAIL_BYTES),
        "body": text_of(letter.body[:MAX_BODY_BYTES]),
        "server": letter.server,
        "job": letter.job,
        "at": letter.at or dt.datetime.now(dt.UTC),
    }
