"""Requests that are dead or have ended, asked again now: each is a new operation.

It is put like any other request, so all limits hold for it, and while its number runs or waits it
joins those who asked before: there are never two calls at once.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.client.connections import Collections
from service.client.dead import put_again
from service.client.kick import resent
from service.client.producer import Producer, PutOptions
from service.client.put import Sendable
from service.results.database import Document
from service.results.dead import Filter, find
from service.results.document import fields_in
from service.results.queries import find_tracking
from service.tubes.envelope import encode_request
from service.tubes.payload import traceparent_of
from tracking.account import account_and_id
from tracking.operation import ENDS
from tracking.request import Number, Slug, TrackingRequest


class NotEnded(Exception):
    """There is nothing to resend; the text says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class Meant:
    """A request that may be asked again: that of a record in `dead`, or an operation that ended.

    `operation` is its id, "" where none is known; `why` the record's reason, or how it ended.
    """

    slug: str | None
    number: str | None
    operation: str
    why: str
    record: Document | None = None


def dead_ones(stores: Collections, wanted: Filter) -> list[Meant]:
    """List the dead requests that are meant, newest first. Raises ResultsDown."""
    return [of_record(document) for document in find(stores.dead, wanted)]


def of_record(document: Document) -> Meant:
    """Read what a record in `dead` is about."""
    operation = next(iter(document.get("operations") or ()), "")
    named = (document.get("slug"), document.get("number"))
    return Meant(*named, operation, str(document.get("reason")), document)


def ended_one(identity: str, operation: Mapping[str, Any] | None) -> Meant:
    """Read an operation that ended. Raises NotEnded."""
    if operation is None or operation["status"] is None:
        raise NotEnded(f"{identity} is not known: in the tube still, ended long ago, or never put")
    if operation["status"] not in ENDS:
        raise NotEnded(f"{identity} is {operation['status']}: there is nothing to resend yet")
    if not operation.get("tracking"):
        raise NotEnded(f"the parcel of {identity} was forgotten")
    slug, _, number = operation["tracking"].partition(":")
    code = (operation.get("output") or {}).get("code")
    why = f"{operation['status']}: {code}" if code else str(operation["status"])
    return Meant(slug, number, identity, why)


def newest_of(
    identity: str, operation: Mapping[str, Any] | None, records: Sequence[Document]
) -> Meant:
    """Pick the newest request that had an id, as its record in `dead` where it has one.

    `records` are those that name the id, the newest first. One of another parcel is about a request
    that was refused, because the id is that of `operation` (`id_reused`). Raises NotEnded.
    """
    for record in records:
        if operation is None or _is_newest(record, operation):
            return of_record(record)
    return ended_one(identity, operation)


def newest_ended(name: str, operations: Sequence[Mapping[str, Any]]) -> Meant:
    """Pick the newest operation of a parcel, none of whose may be open. Raises NotEnded."""
    known = [each for each in operations if each["status"] is not None]
    if not known:
        raise NotEnded(
            f"no request for {name} is dead or has ended, as far as is known; put a new one"
        )
    for each in known:
        if each["status"] not in ENDS:
            raise NotEnded(f"{each['id']} is {each['status']} for {name}: it is asked for already")
    return ended_one(known[0]["id"], known[0])


def _is_newest(record: Document, operation: Mapping[str, Any]) -> bool:
    """Tell whether a record is of this operation, or of a request for its parcel after its end.

    One whose parcel could not be read may be for any.
    """
    slug, number, at = record.get("slug"), record.get("number"), record.get("at")
    if at is None or (slug and number and operation.get("tracking") != f"{slug}:{number}"):
        return False
    began, finished = (_instant(operation.get(name)) for name in ("startedAt", "finishedAt"))
    if (operation.get("output") or {}).get("code") == record.get("reason"):
        return began is None or at >= began  # it died: that was recorded just before its end
    return finished is not None and at > finished


def _instant(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text) if text else None


def resend(meant: Meant, stores: Collections, producer: Producer) -> str | None:
    """Put it again; tells the id it was put with, None for a body that cannot be read.

    A record goes then. Raises NotKicked, StoreError: nothing was put, or the record stays.
    """
    if meant.record is not None:
        return put_again(meant.record, stores.dead, producer)
    slug, number = Slug(meant.slug or ""), Number(meant.number or "")
    account, _ = account_and_id(meant.operation)
    request = renewed_request(meant, find_tracking(stores.tracking, slug, number, account))
    producer.put([encode_request(request)], PutOptions())
    return request.id


def renewed(meant: Meant, document: Document | None, traced: str | None = None) -> Sendable:
    """Make the job of a resend, for callers that put it themselves."""
    request = renewed_request(meant, document)._replace(traceparent=traceparent_of(traced))
    return Sendable(request.id or "", request.slug, request.number, encode_request(request))


def renewed_request(meant: Meant, document: Document | None) -> TrackingRequest:
    """Make the request of an operation that ended; `document` is its account's of the parcel."""
    number = Number(meant.number or "")
    return TrackingRequest(
        slug=Slug(meant.slug or ""),
        number=number,
        given=number,
        id=resent(meant.operation),
        max_age=0.0,  # it has its answer; who asks again wants another one
        fields=fields_in(document),
        resend_of=meant.operation,
    )
