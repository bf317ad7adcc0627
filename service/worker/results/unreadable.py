"""The collection `unreadable`: the last unparsable answer of each number, kept for `reparse`.

============== =====================================================================================
member         is
============== =====================================================================================
`_id`          `"usps:9405…"`, like that of its account's document of the parcel
account        whose document it is; missing: that of `main`
fields         what it was asked with besides the number; missing: nothing
slug, number   whose answer it is; `asked` is the number that the courier was asked for
status         of HTTP; `headers` those that reading may need
body           without secrets, at most 64 KiB; `cut` when there was more
message        why it could not be read
at             when the courier was asked: the end of its keeping time is counted from here
attempted_at   `at` of the entry in the parcel's `attempts`
observed_us    the grant of the call: it tells which of two observations is newer
============== =====================================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from bson import Int64
from pymongo import ASCENDING, UpdateOne
from pymongo.collection import Collection

from service.worker.results.connection import Marks
from service.worker.results.database import Document, Refusal
from service.worker.results.document import (
    Answer,
    body_in,
    clean,
    fields_in,
    granted_at,
    name_of,
    stored,
    text_of,
    whose,
)
from service.worker.results.failure import faults_of
from tracking.call import Attempt, Call, Permit
from tracking.checkpoint import Tracking
from tracking.errors import Unread
from tracking.line import line_of
from tracking.request import MAIN, Number, Slug, TrackingRequest

_OVER = cast(Permit, None)
"""The permit of a call that is over: nobody sends by it again."""

MAX_TEXT_BYTES = 1024
"""Bytes of a message, and of a header's value."""


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """An answer that its courier's module could not read; `attempted_at`: `at` of its attempt."""

    call: Call
    unread: Unread
    attempted_at: dt.datetime
    message: str


def keep_unread(
    unreadable: Collection[Document], marks: Marks, answers: Sequence[UnreadAnswer]
) -> list[Refusal]:
    """Keep answers, each unless a newer one about its number is kept. May be repeated.

    What was asked before its parcel was forgotten is dropped, and so is what MongoDB refuses, which
    is returned: the attempt in `tracking` keeps the beginning.
    """
    kept = marks.left_of(answers)
    if not kept:
        return []
    writes = [UpdateOne(*_newest(each), upsert=True) for each in kept]
    # Of a known answer a newer one is there, which the filter did not find.
    refused = faults_of(partial(unreadable.bulk_write, writes, ordered=False)).refused
    return [(name_of(kept[index].call), why) for index, why in refused.items()]


def kept_answers(unreadable: Collection[Document], slug: str | None = None) -> Iterator[Document]:
    """List kept answers, oldest first, of a courier or of all; one by one, as they are large."""
    wanted = {} if slug is None else {"slug": {"$eq": slug}}
    names = [found["_id"] for found in unreadable.find(wanted, {"_id": 1}).sort("at", ASCENDING)]
    for name in names:
        document = unreadable.find_one({"_id": name})
        if document is not None:
            yield document


def unread_of(document: Document) -> Unread:
    """Read a kept answer back. Raises KeyError, TypeError for a document that no worker wrote."""
    return Unread(
        number=document["asked"],
        status=document["status"],
        headers=document["headers"],
        body=body_in(document),
        cut=document["cut"],
    )


def answer_in(document: Document, tracking: Tracking) -> Answer:
    """Make the `Answer` of a kept answer that could be read: the observation that it was."""
    slug, number = Slug(document["slug"]), Number(document["number"])
    request = TrackingRequest(slug, number, number, fields=fields_in(document))
    granted_us, account = int(document["observed_us"]), document.get("account", MAIN)
    since = granted_us / 1_000_000
    call = Call("past", line_of(request), request, _OVER, granted_us, since, account=account)
    # The attempt is that of the failed reading: it stands in the document already.
    outcome = "answered" if tracking.checkpoints else "not_found"
    return Answer(call, tracking, Attempt(document["attempted_at"], outcome, 0, document["status"]))


def delete_read(unreadable: Collection[Document], read: Document) -> None:
    """Delete a kept answer that was read, unless a newer one has taken its place."""
    unreadable.delete_one({name: read[name] for name in ("_id", "observed_us")})


def _newest(kept: UnreadAnswer) -> tuple[Document, Mapping[str, Document]]:
    """Ask for the document unless it is newer, and tell what to make of it."""
    request, unread = kept.call.request, kept.unread
    members = {
        "slug": request.slug,
        "number": request.number,
        "asked": unread.number,
        "status": unread.status,
        "headers": {name: clean(value, MAX_TEXT_BYTES) for name, value in unread.headers.items()},
        "body": text_of(unread.body),
        "cut": unread.cut,
        "message": clean(kept.message, MAX_TEXT_BYTES),
        "at": granted_at(kept.call),
        "attempted_at": stored(kept.attempted_at),
        "observed_us": Int64(kept.call.granted_us),
    }
    older = {"_id": name_of(kept.call), "observed_us": {"$lte": Int64(kept.call.granted_us)}}
    members |= {"fields": dict(request.fields)} if request.fields else {}
    return older, {"$set": members | whose(kept.call.account)}
