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
bad_origin      has an `origin` that is neither MANUAL nor AUTOMATIC
bad_max_age     has a `max_age` that is not a number of seconds
bad_expires_in  has an `expires_in` that is not a number of seconds
bad_line        of the tube `wait_list`, has a `line` that is not a string
bad_field       has a courier's field that is not a string, too long, or holds control characters
=============== ===================================================================================

Unknown members are ignored, and so is a `meta` that cannot be read. An optional member that is
null is absent: many producers write out every member that they know.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from service.tubes.naming import Resolve, named_in
from service.tubes.strict_json import read_strictly
from tracking.errors import MalformedJob, UnknownLine
from tracking.line import Line, courier_line, slug_of
from tracking.request import (
    FIELDS,
    NO_FIELDS,
    Origin,
    Slug,
    TrackingRequest,
    parse_number,
    parse_slug,
)

REQUESTS_TUBE: Final = "requests_flow"
DRAINS_TUBE: Final = "wait_list"

BODY_MOST = 65_536
"""Bytes. One more than beanstalkd takes by default; a server with a larger `-z` gains nothing."""

GIVEN_MOST = 256
"""Characters of a number as it was given, blanks and hyphens included."""

FIELD_MOST = 256
"""Characters of one of the couriers' fields."""

SECONDS_MOST = 1e11
"""Three thousand years: more than that was not meant as seconds."""

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def decode_request(
    body: bytes,
    resolve: Resolve,
    age_seconds: float = 0.0,
    clock: Callable[[], float] = time.time,
) -> TrackingRequest:
    """Read a body of the tube `requests_flow`. Raises MalformedJob, with what the body names.

    `age_seconds` is the time since the put; it counts only where `needs_age(body)`. `clock` tells
    Unix time in seconds.
    """
    read = _parse(body)
    try:
        return _request(_job(read, REQUESTS_TUBE), resolve, age_seconds, clock)
    except MalformedJob as error:
        error.slug, error.number = named_in(read, resolve)
        raise


def _request(
    job: Mapping[str, Any], resolve: Resolve, age_seconds: float, clock: Callable[[], float]
) -> TrackingRequest:
    payload = _payload(job)
    slug, keep = resolve(_name(payload))
    given = _text(payload.get("number"), "bad_number", "number", GIVEN_MOST)
    meta = job.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    max_age = _seconds(payload.get("max_age"), "max_age")
    expires_in = _seconds(payload.get("expires_in"), "expires_in")
    expires_at = None
    if expires_in is not None:
        now = clock()
        enqueued_at = _instant(meta.get("enqueued_at"))
        # A producer's clock may run ahead of ours, but nothing was put in the future.
        put_at = now - age_seconds if enqueued_at is None else min(enqueued_at, now)
        # Within what `_seconds` reads, so that it can be written as a job again.
        expires_at = min(max(put_at + expires_in, 0.0), SECONDS_MOST)
    return TrackingRequest(
        slug=slug,
        number=parse_number(given, keep),
        given=given,
        id=_id(payload.get("id")),
        origin=_origin(payload.get("origin")),
        max_age=max_age,
        expires_at=expires_at,
        fields=_fields(payload),
        traceparent=_traceparent(meta.get("traceparent")),
    )


def decode_drain(body: bytes, resolve: Resolve) -> Line:
    """Read a body of the tube `wait_list`: which line is to be drained.

    Raises MalformedJob, and UnknownLine where nothing is wrong but that nobody here knows it.
    """
    read = _parse(body)
    try:
        payload = _payload(_job(read, DRAINS_TUBE))
        line = payload.get("line")
        name = _name(payload) if line is None else _text(line, "bad_line", "line", BODY_MOST)
    except MalformedJob as error:
        error.slug, _ = named_in(read, resolve)
        raise
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
    """Write a request as a body that `decode_request` reads back as the same request."""
    payload: dict[str, object] = {"slug": request.slug, "number": request.given}
    if request.id is not None:
        payload["id"] = request.id
    if request.origin is not Origin.MANUAL:
        payload["origin"] = request.origin.value
    if request.max_age is not None:
        payload["max_age"] = request.max_age
    meta: dict[str, object] = {}
    if request.expires_at is not None:
        # Counted from the epoch: exact, and right however long the job lies in a tube.
        meta["enqueued_at"] = 0
        payload["expires_in"] = request.expires_at
    if request.traceparent is not None:
        meta["traceparent"] = request.traceparent
    payload.update(request.fields)
    job = {"type": REQUESTS_TUBE, "payload": payload}
    return _encode(job | {"meta": meta} if meta else job)


def encode_drain(line: Line) -> bytes:
    """Write the body that asks for somebody to drain `line`."""
    return _encode({"type": DRAINS_TUBE, "payload": {"slug": slug_of(line)}})


def _encode(job: Mapping[str, object]) -> bytes:
    return json.dumps(job, separators=(",", ":"), allow_nan=False).encode()


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
        raise MalformedJob("bad_shape", f"the body is {_kind(read)}: {wanted}")
    kind = read.get("type")
    if not isinstance(kind, str):
        raise MalformedJob("bad_shape", f'`type` is {_kind(kind)}: write "type": "{tube}"')
    if kind != tube:
        raise MalformedJob("wrong_tube", f'`type` is {kind[:80]!r}: write "{tube}"')
    return read


def _parse(body: bytes) -> Any:
    if len(body) > BODY_MOST:
        raise MalformedJob("too_big", f"the body has {len(body)} bytes: write {BODY_MOST} at most")
    if not body:
        raise MalformedJob("bad_json", "the body is empty: write a JSON object")
    try:
        return read_strictly(body)
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8: write the JSON in UTF-8"
        raise MalformedJob("bad_utf8", why) from error
    except RecursionError as error:
        raise MalformedJob(
            "bad_json", "nested too deep: write an object with the object `payload`"
        ) from error
    except ValueError as error:
        raise MalformedJob("bad_json", f"not JSON: {error}"[:200]) from error


def _payload(job: Mapping[str, Any]) -> Mapping[str, Any]:
    payload = job.get("payload")
    if not isinstance(payload, dict):
        wanted = 'write an object, {"slug": "…", …}'
        raise MalformedJob("bad_shape", f"`payload` is {_kind(payload)}: {wanted}")
    return payload


def _text(value: Any, reason: str, name: str, most: int) -> str:
    if not isinstance(value, str):
        raise MalformedJob(reason, f"`{name}` is {_kind(value)}: write a string, in quotes")
    if len(value) > most:
        raise MalformedJob(reason, f"`{name}` has {len(value)} characters: write {most} at most")
    return value


def _name(payload: Mapping[str, Any]) -> Slug:
    return parse_slug(_text(payload.get("slug"), "bad_slug", "slug", BODY_MOST))


def _id(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise MalformedJob("bad_id", "`id` must be a string of 1 to 128 of A-Z a-z 0-9 . _ : -")
    return value


def _origin(value: Any) -> Origin:
    if value is None:
        return Origin.MANUAL
    try:
        return Origin(value)
    except ValueError as error:
        raise MalformedJob("bad_origin", '`origin` must be "MANUAL" or "AUTOMATIC"') from error


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= SECONDS_MOST:
        wanted = "must be a number of seconds, 0 or more, without quotes"
        raise MalformedJob(f"bad_{name}", f"`{name}` {wanted}")
    return float(value)


def _instant(value: Any) -> float | None:
    """Read Unix time in seconds, or in milliseconds as JavaScript has it, or ISO 8601."""
    if type(value) in (int, float) and 0 <= value <= SECONDS_MOST * 1000:
        return float(value) / 1000 if value > SECONDS_MOST else float(value)
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            return None
        return read.timestamp() if read.tzinfo else None
    return None


def _fields(payload: Mapping[str, Any]) -> Mapping[str, str]:
    found = {}
    for name in FIELDS:
        value = payload.get(name)
        if value is None:
            continue
        text = _text(value, "bad_field", name, FIELD_MOST)
        if _UNFIT.search(text):
            raise MalformedJob("bad_field", f"`{name}` holds control characters: leave them out")
        if text.strip():
            found[name] = text
    return MappingProxyType(found) if found else NO_FIELDS


def _traceparent(value: Any) -> str | None:
    return value if isinstance(value, str) and _TRACEPARENT.fullmatch(value) else None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return "missing" if value is None else names.get(type(value), "a number")
