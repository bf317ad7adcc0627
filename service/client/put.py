"""Requests to be put: rows made into bodies of jobs, checked by the decoder of the workers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from service.tubes.envelope import encode_payload
from service.tubes.payload import request_from
from tracking.errors import MalformedJob
from tracking.request import FIELDS, FIELDS_PREFIX, Slug, TrackingRequest

MEMBERS = ("slug", "number", "id", "origin", "max_age", "expires_in", *FIELDS)
"""What somebody who asks may say of a request."""

_SECONDS = ("max_age", "expires_in")


@dataclass(frozen=True, slots=True)
class Row:
    """One request as somebody wrote it; `where` says where, for complaints.

    `index` is its line, its row of the file with the header as the first one, or its place among
    the numbers of the command line.
    """

    where: str
    texts: dict[str, str]
    index: int = 0


class Sendable(NamedTuple):
    """A request that may be put; `id` makes it safe to put again.

    `made_up`: its producer gave no id, so that putting its row again makes another request.
    """

    id: str
    slug: Slug
    number: str
    body: bytes
    row: int = 0
    made_up: bool = False


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that no worker would take, and why."""

    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


class Couriers(Protocol):
    """What must be known of couriers here; a `Catalogue` knows it."""

    def resolve(self, text: str) -> tuple[Slug, str]:
        """Find the slug that `text` means and the characters its numbers keep.

        Raises MalformedJob.
        """

    def required_fields(self, slug: Slug) -> tuple[str, ...]:
        """Name the fields that a request for this courier must carry."""


def sendables(rows: Iterable[Row], couriers: Couriers) -> Iterator[Sendable | Bad]:
    """Make a body of each row, or a complaint. An id is made up where there is none."""
    resolve = couriers.resolve
    seen: dict[str, tuple[str, str]] = {}
    for row in rows:
        try:
            payload, meta = _payload(row.texts), {"enqueued_at": round(time.time(), 3)}
            request = request_from(payload, resolve, meta)
        except MalformedJob as error:
            yield Bad(row.where, _explained(error, row.texts))
            continue
        named = (request.slug, request.number)
        if why := _missing(request, couriers) or _taken(request, seen):
            yield Bad(row.where, why)
            continue
        identity, made_up = request.id or "", not row.texts.get("id")
        if not made_up:
            seen[identity] = named
        body = encode_payload(payload, meta)
        yield Sendable(identity, *named, body, row.index, made_up)


def _payload(texts: Mapping[str, str]) -> dict[str, object]:
    payload: dict[str, object] = {"number": ""}
    payload |= {name: text for name, text in texts.items() if name not in _SECONDS}
    payload.setdefault("id", str(uuid.uuid4()))
    for name in _SECONDS:
        if text := texts.get(name):
            payload[name] = _seconds(name, text)
    return payload


def _seconds(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise MalformedJob(
            f"bad_{name}", f"{name} must be a number of seconds, not {text[:40]!r}"
        ) from error


def _explained(error: MalformedJob, texts: Mapping[str, str]) -> str:
    if error.reason == "bad_number" and "E+" in texts.get("number", "").upper():
        return f"{error.detail}. A spreadsheet rounded it: format that column as text"
    return error.detail


def missing_field(slug: Slug, members: Mapping[str, str], couriers: Couriers) -> str:
    """Name the first field that a courier requires and a request lacks; "" for none."""
    for name in couriers.required_fields(slug):
        if not members.get(name, "").strip():
            return name
    return ""


def _missing(request: TrackingRequest, couriers: Couriers) -> str:
    short = missing_field(request.slug, request.fields, couriers).removeprefix(FIELDS_PREFIX)
    return short and f"{request.slug} needs {short}: give --field {short}=…, or that column"


def _taken(request: TrackingRequest, seen: Mapping[str, tuple[str, str]]) -> str:
    other = seen.get(request.id or "")
    if other in {None, (request.slug, request.number)}:
        return ""
    return f"the id {request.id} belongs to another number above; give each number its own id"
