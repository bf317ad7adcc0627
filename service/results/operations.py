"""The collection `operations`: what became of each request, for months after its end.

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
put_at       when its producer put it, or null where it did not say so (`meta.enqueued_at`)
admitted_at  when a worker took it
started_at   when the call was granted that ended it, or null
finished_at  its end; it is purged so many days after it
attempts     the last calls that were made for it, oldest first: at, outcome, http_status, ms
============ =======================================================================================

Written by the archiver, a batch at a time; writing it again changes nothing. With `[redis] mirror`
there are open ones, too: `service.results.mirror`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import bson
import msgspec
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import DESCENDING
from pymongo.collection import Collection

from limits.admin.operations import LISTED_MOST, Made, Operation, iso, own_attempts
from limits.archive import BRIEF_MS, DAY_MS, Archived, Ended
from service.results.connection import Document
from service.results.forgetting import NEVER, Marks
from service.results.refused import Refusal, insert_each
from tracking.account import MAIN, Account, account_and_id
from tracking.operation import ENDS, State
from tracking.request import Origin


class Unreadable(Exception):
    """A status that this service did not write."""


class _Status(msgspec.Struct):
    """What lua/lib/state.lua writes at an operation's end."""

    status: str
    at: int
    put: int | None = None
    tracking: str | None = None
    startedAt: datetime | None = None  # noqa: N815 - the contract's name
    output: dict[str, Any] | None = None
    auto: bool = False
    anonymous: bool = False
    resend_of: str | None = None
    repliedAt: datetime | None = None  # noqa: N815 - the same
    attempts: list[Made] = []


_read = msgspec.json.Decoder(_Status).decode


def read_ended(ended: Ended) -> tuple[Document | None, Archived]:
    """Make the document of an operation, and what to report once it is stored.

    None instead of a document: its parcel was forgotten, or its status is none of an end. Raises
    Unreadable.
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
        raise Unreadable(str(error)) from error


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
    }


def told(document: Document) -> Operation:
    """Tell of an archived operation as Redis told of it (limits/admin/operations.py)."""
    started = document.get("started_at")
    attempts = [
        each | {"at": iso(each["at"].timestamp() * 1000)} for each in document.get("attempts") or ()
    ]
    repeats = {"resend_of": document["resend_of"]} if document.get("resend_of") else {}
    replied = document.get("replied_at")
    return {
        "id": document["id"],
        "status": document["state"],
        "startedAt": started and iso(started.timestamp() * 1000),
        "finishedAt": iso(document["finished_at"].timestamp() * 1000),
        "output": document.get("output"),
        "tracking": f"{document['slug']}:{document['number']}",
        **repeats,
        **({"attempts": attempts} if attempts else {}),
        **({"repliedAt": iso(replied.timestamp() * 1000)} if replied else {}),
    }


def keep(
    operations: Collection[Document],
    forgotten: Collection[Document],
    documents: Iterable[Document],
    *,
    doubted: bool = False,
) -> tuple[list[Refusal], list[Refusal]]:
    """Store operations, as `insert_each`. Raises PyMongoError.

    Returns which cannot be stored at all, and which MongoDB refuses.
    """
    written: list[Document] = []
    encoded: list[RawBSONDocument] = []
    unstorable: list[Refusal] = []
    for each in documents:
        try:
            encoded.append(RawBSONDocument(bson.encode(each)))
            written.append(each)
        except (BSONError, OverflowError, UnicodeError) as error:
            unstorable.append((each["id"], str(error)))
    if not encoded:
        return unstorable, []
    aside = insert_each(operations, encoded, doubted=doubted)
    withdraw(operations, forgotten, written)
    return unstorable, aside


def withdraw(
    operations: Collection[Document], forgotten: Collection[Document], written: Iterable[Document]
) -> None:
    """Delete again what began before its parcel was forgotten.

    Afterwards, not before: `forget` makes the mark first and then deletes what is there.
    """
    names = {each["_id"]: f"{each['slug']}:{each['number']}" for each in written}
    marks = Marks(forgotten).of(set(names.values()))
    gone = [
        each["_id"]
        for each in written
        if each["admitted_at"].timestamp() * 1_000_000 <= marks.get(names[each["_id"]], NEVER)
    ]
    if gone:
        operations.delete_many({"_id": {"$in": gone}})


def by_id(identity: str) -> Document:
    """Ask for all that had this id: one range of `_id`. `@` is in no id, and A is next to it."""
    return {"_id": {"$gte": f"{identity}@", "$lt": f"{identity}A"}}


def by_parcel(slug: str, number: str) -> Document:
    """Ask for all of one parcel: one range of the index on both."""
    return {"slug": {"$eq": slug}, "number": {"$eq": number}}


def find_operation(operations: Collection[Document], identity: str) -> Document | None:
    """The newest that had this id. Raises PyMongoError."""
    return operations.find_one(by_id(identity), sort=[("_id", DESCENDING)])


def find_operations(operations: Collection[Document], ids: Sequence[str]) -> list[Document]:
    """The newest that had each of these ids, in no order. Raises PyMongoError."""
    found = operations.find({"$or": [by_id(each) for each in ids]}).sort("_id")
    return list({each["id"]: each for each in found}.values())


def operations_of(
    operations: Collection[Document],
    slug: str,
    number: str,
    account: Account | None = None,
    most: int = LISTED_MOST,
) -> list[Document]:
    """All of one parcel, the newest first; or an account's, which others' many do not push out.

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


def _date(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
