"""Members of a request, read strictly: out of a body, or as another door was given them.

The reasons for which they are refused stand in `envelope`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec

from tracking.errors import MalformedJob
from tracking.request import (
    FIELDS,
    NAME,
    NO_FIELDS,
    SLUG_MOST,
    Number,
    Origin,
    Slug,
    TrackingRequest,
    operation_id,
    parse_account,
    parse_number,
    parse_slug,
)

Resolve = Callable[[str], tuple[Slug, str]]
"""Looks a slug or an alias up: the canonical slug and the characters that its numbers keep.

Raises MalformedJob (`unknown_slug`)."""

NAME_MOST = 65_536
"""Characters of what names a courier or a line: more than any body holds."""

NUMBER_MOST = 100
NUMBER_END = 10**NUMBER_MOST
"""Python does not write out integers of thousands of digits."""

GIVEN_MOST = 256
"""Characters of a number as it was given, blanks and hyphens included."""

FIELD_MOST = 256
"""Characters of one of the couriers' fields."""

SECONDS_MOST = 1e11
"""Three thousand years: more than that was not meant as seconds."""

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_ORIGINS = {origin.value: origin for origin in Origin}
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def request_from(
    payload: Mapping[str, Any],
    resolve: Resolve,
    meta: object = None,
    age_seconds: float = 0.0,
    clock: Callable[[], float] = time.time,
) -> TrackingRequest:
    """Read the members of a request, checked. Raises MalformedJob."""
    slug, number = parcel_from(payload, resolve)
    meta = meta if isinstance(meta, dict) else {}
    max_age = _seconds(payload.get("max_age"), "max_age")
    expires_in = _seconds(payload.get("expires_in"), "expires_in")
    expires_at, now = None, clock()
    put_at = _instant(meta.get("enqueued_at"))
    if put_at is not None:
        # A producer's clock may run ahead of this one, but nothing was put in the future.
        put_at = min(max(put_at, 0.0), now)
    if expires_in is not None:
        began = now - age_seconds if put_at is None else put_at
        # Within what `_seconds` reads, so that it can be written as a job again.
        expires_at = min(max(began + expires_in, 0.0), SECONDS_MOST)
    identity = operation_named(payload)
    return TrackingRequest(  # by place: names cost as much again
        slug,
        number,
        payload["number"],
        identity,
        _origin(payload.get("origin")),
        max_age,
        expires_at,
        _fields(payload),
        traceparent_of(meta.get("traceparent")),
        _resend_of(payload.get("resend_of")),
        put_at or None,
        payload.get("alone") is True,
        webhook_of(payload.get("webhook"), identity),
        payload.get("cancel_webhook_on_reply") is True,
    )


def parcel_from(payload: Mapping[str, Any], resolve: Resolve) -> tuple[Slug, Number]:
    """Read which parcel is meant. Raises MalformedJob."""
    slug, keep = resolve(slug_named(payload))
    given = text_of(payload.get("number"), "bad_number", "number", GIVEN_MOST)
    return slug, parse_number(given, keep)


def named_in(read: Any, resolve: Resolve) -> tuple[str | None, str | None]:
    """Find slug and number as a malformed body names them, by which people search.

    Unchecked but for aliases and length; None for what is not there. `read` is any JSON value.
    """
    job = read[1] if isinstance(read, list) and len(read) > 1 else read
    payload = job.get("payload") if isinstance(job, dict) else None
    if not isinstance(payload, dict):
        return None, None
    slug, number = payload.get("slug"), payload.get("number")
    if isinstance(slug, str) and len(slug) <= SLUG_MOST:
        with suppress(MalformedJob):
            slug, _ = resolve(slug)
    # A number without quotes is the commonest slip.
    if type(number) is int and abs(number) < NUMBER_END:
        number = str(number)
    return (
        slug[:SLUG_MOST] if isinstance(slug, str) else None,
        number[:NUMBER_MOST] if isinstance(number, str) else None,
    )


def check_options(payload: Mapping[str, Any]) -> None:
    """Raises MalformedJob for what `request_from` refuses besides the parcel."""
    for name, value in payload.items():
        if check := _OPTIONS.get(name):
            check(value)


def text_of(value: Any, reason: str, name: str, most: int = NAME_MOST) -> str:
    """Take a string of at most `most` characters. Raises MalformedJob with `reason`."""
    if not isinstance(value, str):
        raise MalformedJob(reason, f"`{name}` is {kind_of(value)}: write a string, in quotes")
    if len(value) > most:
        raise MalformedJob(reason, f"`{name}` has {len(value)} characters: write {most} at most")
    return value


def slug_named(payload: Mapping[str, Any]) -> Slug:
    """Read the slug as it was written, aliases unresolved. Raises MalformedJob."""
    return parse_slug(text_of(payload.get("slug"), "bad_slug", "slug"))


def operation_named(payload: Mapping[str, Any]) -> str | None:
    """Read the id of the operation: its producer's id, with the account where it is not `main`."""
    identity, account = _id(payload.get("id")), payload.get("account")
    if account is None:
        return identity
    try:
        name = parse_account(text_of(account, "bad_account", "account"))
    except ValueError as error:
        raise MalformedJob("bad_account", f"`account`: {error}") from error
    return identity and operation_id(name, identity)


def _id(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise MalformedJob("bad_id", "`id` must be a string of 1 to 128 of A-Z a-z 0-9 . _ : -")
    return value


def _resend_of(value: Any) -> str | None:
    """Read the id of the operation that a resend repeats; it only tells people."""
    if not isinstance(value, str) or len(value) > GIVEN_MOST or _UNFIT.search(value):
        return None
    return value or None


def webhook_of(value: Any, identity: str | None) -> str | None:
    """Read the service that a request names. Raises MalformedJob, also where it has no id."""
    name = _service(value)
    if name is not None and identity is None:
        why = "`webhook` goes with an `id`, by which the service knows what has ended"
        raise MalformedJob("bad_webhook", why)
    return name


def _service(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not NAME.fullmatch(value):
        why = "`webhook` must be the name of a service: a string of 1 to 20 of a-z 0-9"
        raise MalformedJob("bad_webhook", why)
    return value


def _truth(value: Any) -> None:
    if value is not None and not isinstance(value, bool):
        raise MalformedJob("bad_webhook", "`cancel_webhook_on_reply` must be true or false")


def _origin(value: Any) -> Origin:
    if value is None:
        return Origin.MANUAL
    if isinstance(value, str) and (origin := _ORIGINS.get(value)):
        return origin
    raise MalformedJob("bad_origin", '`origin` must be "MANUAL" or "AUTOMATIC"')


def _seconds(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= SECONDS_MOST:
        wanted = f"must be a number of seconds, from 0 to {SECONDS_MOST:.0f}, without quotes"
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
    if FIELDS.keys().isdisjoint(payload):
        return NO_FIELDS
    found = {}
    for name in FIELDS:
        value = payload.get(name)
        if value is None:
            continue
        if (text := _field(value, name)).strip():
            found[name] = text
    return MappingProxyType(found) if found else NO_FIELDS


def _field(value: Any, name: str) -> str:
    text = text_of(value, "bad_field", name, FIELD_MOST)
    if _UNFIT.search(text):
        raise MalformedJob("bad_field", f"`{name}` holds control characters: leave them out")
    return text


_OPTIONS: Mapping[str, Callable[[Any], object]] = {
    "id": _id,
    "origin": _origin,
    "webhook": _service,
    "cancel_webhook_on_reply": _truth,
    **{name: partial(_seconds, name=name) for name in ("max_age", "expires_in")},
    **{name: partial(_field, name=name) for name in FIELDS},
}
"""What reads a member that is there and not null, by its name."""


def traceparent_of(value: Any) -> str | None:
    """Read the W3C's `traceparent`; None for anything else."""
    return value if isinstance(value, str) and _TRACEPARENT.fullmatch(value) else None


def kind_of(value: Any) -> str:
    """Say which kind of JSON value it is."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return "missing" if value is None else names.get(type(value), "a number")


def read_strictly(body: bytes) -> Any:
    """Read one JSON value in which no key stands twice and every number is one.

    Raises ValueError (UnicodeDecodeError is one) or RecursionError.
    """
    try:
        read = _QUICK.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _STRICT.decode(body.decode())
    # Each key stands before a colon: where there are no more colons than keys, none stands twice.
    return read if body.count(b":") == _keys_in(read) else _STRICT.decode(body.decode())


def read_json(body: bytes, shape: str) -> Any:
    """As `read_strictly`; raises MalformedJob: `bad_utf8` or `bad_json`.

    `shape`: what to write in the place of something that is nested too deep.
    """
    try:
        return read_strictly(body)
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8: write the JSON in UTF-8"
        raise MalformedJob("bad_utf8", why) from error
    except RecursionError as error:
        raise MalformedJob("bad_json", f"nested too deep: write {shape}") from error
    except ValueError as error:
        raise MalformedJob("bad_json", f"not JSON: {error}"[:200]) from error


def _keys_in(read: Any) -> int:
    """Count the keys of an object and of the objects right inside it: those of nearly any job."""
    if not isinstance(read, dict):
        return 0
    keys = len(read)
    for value in read.values():
        if isinstance(value, dict):
            keys += len(value)
    return keys


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        # Two readers may each trust another one of the two values.
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:80]!r} is there twice")
            seen.add(key)
    return read


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON value")


_QUICK = msgspec.json.Decoder()
_STRICT = json.JSONDecoder(object_pairs_hook=_without_twins, parse_constant=_no_constant)
