"""A dead request put on the tube again."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time

from service.client.buried import buried_job, delete_buried
from service.client.producer import Producer
from service.results.database import Document
from service.results.dead import MAX_BODY_BYTES
from service.results.document import body_in
from service.tubes.envelope import REQUESTS_TUBE
from service.tubes.put_servers import PutOptions
from tracking.account import MAIN, Account, account_and_id, operation_id

ID_MOST = 128


class NotKicked(Exception):
    """A record that cannot be put again; the text says why and what to do instead."""


def kick(document: Document, producer: Producer) -> str | None:
    """Put it again, then delete its buried job; tells the id it was put with, None for none.

    Raises NotKicked, StillBuried, TubesDown; the record must stay then.
    """
    # Looked for before anything is put: what cannot be deleted would be put again each time.
    buried = buried_job(document, producer)
    if buried and buried.tube != REQUESTS_TUBE:
        raise NotKicked(f"it is a job of {buried.tube}, which workers put themselves; delete it")
    body = buried.body if buried else body_in(document)
    if not buried and len(body) >= MAX_BODY_BYTES:
        raise NotKicked(
            f"only its first {MAX_BODY_BYTES} bytes were kept; its producer must put it"
        )
    operation = next(iter(document.get("operations") or ()), None)
    # Of a record that is put twice, because we vanished in between, comes one operation.
    request, identity = renewed(body, operation, _mark(f"{document['_id']} {document.get('at')}"))
    producer.put([request], PutOptions())
    if buried:
        delete_buried(buried, producer)
    return identity


def renewed(
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
        if isinstance(whose := payload.get("account"), str):
            operation = operation_id(Account(whose), operation)
        identity = resent(operation, mark)
        account, own = account_and_id(identity)
        payload["id"] = own
        if account != MAIN:
            payload["account"] = account
        payload["resend_of"] = operation
    payload.pop("expires_in", None)
    if isinstance(inner.get("meta"), dict):
        inner["meta"]["enqueued_at"] = round(time.time(), 3)
    return json.dumps(job, separators=(",", ":")).encode(), identity


def resent(operation: str, mark: str | None = None) -> str:
    """Make an id that tells whose repetition it is, as far as an id may hold it."""
    suffix = f".kick-{mark or secrets.token_hex(4)}"
    account, own = account_and_id(operation)
    again = re.sub("[^A-Za-z0-9._:-]", "-", own)[: ID_MOST - len(suffix)] + suffix
    return operation_id(account, again)


def _mark(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
