"""Bodies of jobs: read strictly, written in one form.

A body that is not docs/interface.md §1 raises MalformedJob with one of these reasons:

=============== ===================================================================================
reason          the body
=============== ===================================================================================
too_big         is longer than BODY_MOST bytes
bad_utf8        is not UTF-8
bad_json        is not JSON, is too deep, holds NaN, Infinity, a key twice, an endless integer
bad_shape       is not `{"type": …, "payload": {…}}`, nor that inside `["<tube>", …]`
wrong_tube      is meant for another tube
bad_slug        has a slug of an impossible form
unknown_slug    has a slug that no courier has
bad_number      has a number that cannot be one
bad_id          has an `id` that is not 1 to 128 of A-Z a-z 0-9 . _ : -
bad_account     has an `account` that is not 1 to 20 of a-z and 0-9
bad_origin      has an `origin` that is neither MANUAL nor AUTOMATIC
bad_webhook     has a `webhook` that is not 1 to 20 of a-z and 0-9, or has one without an `id`
bad_max_age     has a `max_age` that is not a number of seconds
bad_expires_in  has an `expires_in` that is not a number of seconds
bad_line        of the tube `wait_list`, has a `line` that is not a string
bad_field       has a courier's field that is not a string, too long, or holds control characters
=============== ===================================================================================

Unknown members are ignored, and so is a `meta` that cannot be read. An optional member that is
null is absent: many producers write out every member that they know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from service.ports import Job
from service.worker.tubes.payload import (
    Resolve,
    kind_of,
    named_in,
    operation_named,
    read_json,
    request_from,
    slug_named,
    text_of,
    webhook_of,
)
from tracking.errors import MalformedJob, UnknownLine
from tracking.line import TRACKING, Line, courier_line, slug_of
from tracking.request import MAIN, Origin, TrackingRequest, account_and_id

REQUESTS_TUBE: Final = "requests_flow"
DRAINS_TUBE: Final = "wait_list"
WEBHOOKS_TUBE: Final = "webhooks"
TUBES: Final = (REQUESTS_TUBE, DRAINS_TUBE, WEBHOOKS_TUBE)

BODY_MOST = 65_536
"""Bytes. One more than beanstalkd takes by default; a server with a larger `-z` gains nothing."""

_encoder = msgspec.json.Encoder()


async def request_in(job: Job, resolve: Resolve) -> TrackingRequest:
    """Read a job of the tube `requests_flow`.

    Raises MalformedJob, or TubesDown when the job is not ours any more.
    """
    age = await job.age() if needs_age(job.body) else 0.0
    return decode_request(job.body, resolve, age)


def line_in(job: Job, resolve: Resolve, knows: Knows) -> Line:
    """Read a job of the tube `wait_list`. Raises MalformedJob, UnknownLine."""
    return decode_drain(job.body, resolve, knows)


def decode_request(
    body: bytes, resolve: Resolve, age_seconds: float = 0.0, clock: Callable[[], float] = time.time
) -> TrackingRequest:
    """Read a body of the tube `requests_flow`. Raises MalformedJob, with what the body names.

    `age_seconds` is the time since the put; it counts only where `needs_age(body)`. `clock` tells
    Unix time in seconds.
    """
    read = _parse(body)
    try:
        job = _job(read, REQUESTS_TUBE)
        return request_from(_payload(job), resolve, job.get("meta"), age_seconds, clock)
    except MalformedJob as error:
        error.slug, error.number = named_in(read, resolve)
        with suppress(MalformedJob):
            payload = _payload(_job(read, REQUESTS_TUBE))
            error.operation = operation_named(payload)
            error.webhook = webhook_of(payload.get("webhook"), error.operation)
        raise


Knows = Callable[[Line], bool]
"""Whether a line that is no courier's is known here."""


def decode_drain(body: bytes, resolve: Resolve, knows: Knows = lambda _: False) -> Line:
    """Read a body of the tube `wait_list`: which line is to be drained.

    Raises MalformedJob, and UnknownLine where nothing is wrong but that nobody here knows it.
    """
    read = _parse(body)
    try:
        payload = _payload(_job(read, DRAINS_TUBE))
        line = payload.get("line")
        name = slug_named(payload) if line is None else text_of(line, "bad_line", "line")
    except MalformedJob as error:
        error.slug, _ = named_in(read, resolve)
        raise
    if line is not None and knows(Line(name)):
        return Line(name)
    try:
        return courier_line(resolve(name)[0])
    except MalformedJob as error:
        raise UnknownLine(name) from error


def needs_age(body: bytes) -> bool:
    """Whether `decode_request` may want the job's age, which costs a question to the server.

    Never wrong when it says no: a key can be written literally or with escapes, no other way.
    """
    return b"expires_in" in body or b"\\u" in body


def encode_request(request: TrackingRequest) -> bytes:
    """Write a request as a body that `decode_request` reads back as the same request.

    When one that expires was put is not told: the seconds to its end count from the epoch.
    """
    payload: dict[str, object] = {"slug": request.slug, "number": request.given}
    if request.id is not None:
        account, payload["id"] = account_and_id(request.id)
        if account != MAIN:
            payload["account"] = account
    if request.origin is not Origin.MANUAL:
        payload["origin"] = request.origin.value
    said = {
        "max_age": request.max_age,
        "resend_of": request.resend_of,
        "webhook": request.webhook,
        "cancel_webhook_on_reply": request.cancel_on_reply or None,
        "alone": request.alone or None,
    }
    payload |= {name: value for name, value in said.items() if value is not None}
    meta: dict[str, object] = {}
    if request.put_at is not None:
        meta["enqueued_at"] = request.put_at
    if request.expires_at is not None:
        # Counted from the epoch: exact, and right however long the job lies in a tube.
        meta["enqueued_at"] = 0
        payload["expires_in"] = request.expires_at
    if request.traceparent is not None:
        meta["traceparent"] = request.traceparent
    payload.update(request.fields)
    return encode_payload(payload, meta)


def encode_payload(payload: Mapping[str, object], meta: Mapping[str, object]) -> bytes:
    """Write members that `request_from` has read as a body."""
    job: dict[str, object] = {"type": REQUESTS_TUBE, "payload": payload}
    if meta:
        job["meta"] = meta
    return _encoder.encode(job)


def encode_drain(line: Line) -> bytes:
    """Write the body that asks for somebody to drain `line`."""
    # Versions of before read a courier's line by its slug.
    named = {"slug": slug_of(line)} if TRACKING.form.fullmatch(line) else {"line": line}
    return _encoder.encode({"type": DRAINS_TUBE, "payload": named})


def _job(read: Any, tube: str) -> Mapping[str, Any]:
    if isinstance(read, list):
        match read:
            case [str(name), dict(inner)]:
                if name != tube:
                    raise MalformedJob("wrong_tube", f'wrapped for {name[:80]!r}: write "{tube}"')
                read = inner
            case _:
                raise MalformedJob("bad_shape", f'the body is an array: write ["{tube}", {{…}}]')
    if not isinstance(read, dict):
        wanted = f'write an object, {{"type": "{tube}", "payload": {{…}}}}'
        raise MalformedJob("bad_shape", f"the body is {kind_of(read)}: {wanted}")
    kind = read.get("type")
    if not isinstance(kind, str):
        raise MalformedJob("bad_shape", f'`type` is {kind_of(kind)}: write "type": "{tube}"')
    if kind != tube:
        raise MalformedJob("wrong_tube", f'`type` is {kind[:80]!r}: write "{tube}"')
    return read


def _parse(body: bytes) -> Any:
    if len(body) > BODY_MOST:
        raise MalformedJob("too_big", f"the body has {len(body)} bytes: write {BODY_MOST} at most")
    if not body:
        raise MalformedJob("bad_json", "the body is empty: write a JSON object")
    return read_json(body, "an object with the object `payload`")


def _payload(job: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = job.get("payload")
    if not isinstance(payload, dict):
        wanted = 'write an object, {"slug": "…", …}'
        raise MalformedJob("bad_shape", f"`payload` is {kind_of(payload)}: {wanted}")
    return payload
