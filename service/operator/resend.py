"""Requests that are dead or have ended, asked again now: each is a new operation.

It is put like any other request, so all limits hold for it, and while its number runs or waits it
joins those who asked before: there are never two calls at once. `dead kick` and `POST
/v1/dead/kick` are names of the same.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.operator.connections import Collections
from service.operator.dead import buried_job, delete_buried, kick_buried
from service.operator.producer import Producer, PutOptions
from service.operator.put import Sendable
from service.worker.results.database import Document
from service.worker.results.dead import MAX_BODY_BYTES, Filter, delete, find
from service.worker.results.document import body_in, fields_in
from service.worker.results.queries import find_tracking
from service.worker.tubes.envelope import REQUESTS_TUBE, WEBHOOKS_TUBE, encode_request
from service.worker.tubes.payload import traceparent_of
from tracking.operation import ENDS
from tracking.request import (
    MAIN,
    Account,
    Number,
    Slug,
    TrackingRequest,
    account_and_id,
    operation_id,
)

ID_MOST = 128


class NotResent(Exception):
    """A record that cannot be put again; the text says why and what to do instead."""


class NotEnded(Exception):
    """There is nothing to resend; the text says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class ResendTarget:
    """A request that may be asked again: that of a record in `dead`, or an operation that ended.

    `operation` is its id, "" where none is known; `why` the record's reason, or how it ended.
    """

    slug: str | None
    number: str | None
    operation: str
    why: str
    record: Document | None = None
    webhook: str | None = None
    cancel_on_reply: bool = False


def dead_ones(stores: Collections, wanted: Filter) -> list[ResendTarget]:
    """List the dead requests that are meant, newest first. Raises ResultsDown."""
    return [of_record(document) for document in find(stores.dead, wanted)]


def of_record(document: Document) -> ResendTarget:
    """Read what a record in `dead` is about."""
    operation = next(iter(document.get("operations") or ()), "")
    named = (document.get("slug"), document.get("number"))
    return ResendTarget(*named, operation, str(document.get("reason")), document)


def ended_one(identity: str, operation: Mapping[str, Any] | None) -> ResendTarget:
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
    return ResendTarget(
        slug,
        number,
        identity,
        why,
        webhook=operation.get("webhook"),
        cancel_on_reply=bool(operation.get("cancels")),
    )


def newest_of(
    identity: str, operation: Mapping[str, Any] | None, records: Sequence[Document]
) -> ResendTarget:
    """Pick the newest request that had an id, as its record in `dead` where it has one.

    `records` are those that name the id, the newest first. One of another parcel is about a request
    that was refused, because the id is that of `operation` (`id_reused`). Raises NotEnded.
    """
    for record in records:
        if operation is None or _is_newest(record, operation):
            return of_record(record)
    return ended_one(identity, operation)


def newest_ended(name: str, operations: Sequence[Mapping[str, Any]]) -> ResendTarget:
    """Pick the newest operation of a parcel; none may be open. Raises NotEnded."""
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

    A record without a readable parcel may be of any.
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


def resend(target: ResendTarget, stores: Collections, producer: Producer) -> str | None:
    """Put the request again; returns its new id, None for a body that cannot be read.

    A record goes then. Raises NotResent, StoreError: nothing was put, or the record stays.
    """
    if target.record is not None:
        identity = _put_record(target.record, producer)
        delete(stores.dead, Filter(ids=(target.record["_id"],)))
        return identity
    slug, number = Slug(target.slug or ""), Number(target.number or "")
    account, _ = account_and_id(target.operation)
    request = renewed_request(target, find_tracking(stores.tracking, slug, number, account))
    producer.put([encode_request(request)], PutOptions())
    return request.id


def renewed(target: ResendTarget, document: Document | None, traced: str | None = None) -> Sendable:
    """Make the job of a resend, for callers that put it themselves."""
    request = renewed_request(target, document)._replace(traceparent=traceparent_of(traced))
    return Sendable(request.id or "", request.slug, request.number, encode_request(request))


def renewed_request(target: ResendTarget, document: Document | None) -> TrackingRequest:
    """Make the request of an operation that ended; `document` is its account's of the parcel."""
    number = Number(target.number or "")
    return TrackingRequest(
        slug=Slug(target.slug or ""),
        number=number,
        given=number,
        id=resent(target.operation),
        max_age=0.0,  # it has its answer; who asks again wants another one
        fields=fields_in(document),
        resend_of=target.operation,
        webhook=target.webhook,
        cancel_on_reply=target.cancel_on_reply,
    )


def resent(operation: str, mark: str | None = None) -> str:
    """Make the id of a repetition, which begins with the id of the operation that it repeats."""
    suffix = f".kick-{mark or secrets.token_hex(4)}"
    account, own = account_and_id(operation)
    again = re.sub("[^A-Za-z0-9._:-]", "-", own)[: ID_MOST - len(suffix)] + suffix
    return operation_id(account, again)


def _put_record(document: Document, producer: Producer) -> str | None:
    """Put the request of a record, then delete its buried job; returns the id, None for none.

    Raises NotResent, StillBuried, TubesDown; the record must stay then. Better twice than never.
    """
    # Looked for before anything is put: what cannot be deleted would be put again each time.
    buried = buried_job(document, producer)
    if buried and buried.tube == WEBHOOKS_TUBE:
        kick_buried(buried, producer)
        return None
    if buried and buried.tube != REQUESTS_TUBE:
        raise NotResent(f"it is a job of {buried.tube}, which workers put themselves; delete it")
    body = buried.body if buried else body_in(document)
    if not buried and len(body) >= MAX_BODY_BYTES:
        raise NotResent(
            f"only its first {MAX_BODY_BYTES} bytes were kept; its producer must put it"
        )
    operation = next(iter(document.get("operations") or ()), None)
    # Of a record that is put twice, because we vanished in between, comes one operation.
    named = f"{document['_id']} {document.get('at')}".encode("utf-8", "replace")
    mark = hashlib.blake2b(named, digest_size=4).hexdigest()
    request, identity = renewed_body(body, operation, mark)
    producer.put([request], PutOptions())
    if buried:
        delete_buried(buried, producer)
    return identity


def renewed_body(
    body: bytes, operation: str | None = None, mark: str | None = None
) -> tuple[bytes, str | None]:
    """Make a body that is a new request for the same: another id, no expiry of old.

    `operation` is the id of the one that died; an operation that ended does not run again. The new
    one names it as `resend_of`, and `mark` tells it from other repetitions. A body that cannot be
    read is put as it is: perhaps the workers can read it by now.
    """
    try:
        job = json.loads(body)
    except ValueError:
        return body, None
    inner = job[1] if isinstance(job, list) and len(job) == 2 else job  # noqa: PLR2004 - a wrapper
    payload = inner.get("payload") if isinstance(inner, dict) else None
    if not isinstance(payload, dict):
        return body, None
    identity = None
    operation = payload["id"] if isinstance(payload.get("id"), str) else operation
    if operation:
        if isinstance(account := payload.get("account"), str):
            operation = operation_id(Account(account), operation)
        identity = resent(operation, mark)
        renewed_for, own = account_and_id(identity)
        payload["id"] = own
        if renewed_for != MAIN:
            payload["account"] = renewed_for
        payload["resend_of"] = operation
    payload.pop("expires_in", None)
    if isinstance(inner.get("meta"), dict):
        inner["meta"]["enqueued_at"] = round(time.time(), 3)
    return json.dumps(job, separators=(",", ":")).encode(), identity
