"""Requests that are to be put: each made into the body of a job, or refused.

They come from programs, as JSON, or from people, as rows of named texts. All are checked alike,
with the checks of the workers' decoder.
"""

from __future__ import annotations

import difflib
import itertools
import os
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from service.operator.catalogue import Catalogue
from service.worker.tubes.envelope import encode_payload
from service.worker.tubes.payload import (
    FIELD_MOST,
    GIVEN_MOST,
    SECONDS_MOST,
    check_options,
    kind_of,
    parcel_from,
    read_json,
    traceparent_of,
    webhook_of,
)
from tracking.errors import MalformedJob
from tracking.request import (
    FIELDS,
    FIELDS_PREFIX,
    MAIN,
    NAME,
    SLUG,
    SLUG_MOST,
    Account,
    Origin,
    Slug,
    account_and_id,
    operation_id,
)

_HEARS = ("webhook", "cancel_webhook_on_reply")
MEMBERS = ("slug", "number", "id", "origin", "max_age", "expires_in", *_HEARS, *FIELDS)
"""What a producer may say of a request."""

ID_REUSED = "id_reused"

IGNORED_MOST = 20
"""Members of a post about which an answer says that they mean nothing, or a few more."""

SEEN_MOST = 10_000
"""Ids of clients that a process remembers, to refuse one that is used for another parcel."""

_KEPT = frozenset(MEMBERS)
_PARCEL = ("slug", "number")
_SECONDS_NAMES = ("max_age", "expires_in")

_SLUG = Annotated[str, Meta(pattern=f"^{SLUG}$", max_length=SLUG_MOST)]
_ID = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]
_SECONDS = Annotated[float, Meta(ge=0, le=SECONDS_MOST)]
_SERVICE = Annotated[str, Meta(pattern=f"^{NAME.pattern}$")]
_TITLE = Annotated[str, Meta(max_length=200)]
_FIELD = Annotated[str, Meta(max_length=FIELD_MOST, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Asked(msgspec.Struct):
    number: Annotated[
        str,
        Meta(
            min_length=4,
            max_length=GIVEN_MOST,
            description="the tracking number; blanks, hyphens and small letters will do",
            examples=["9405903699300184125060"],
        ),
    ]
    max_age: Annotated[
        _SECONDS | None, Meta(description="an answer so many seconds old will do; 0: ask always")
    ] = None
    expires_in: Annotated[
        _SECONDS | None, Meta(description="seconds until nobody wants the answer any more")
    ] = None


class _Posted(_Asked, kw_only=True):
    slug: Annotated[
        _SLUG | None,
        Meta(description="the courier; without it, the one courier that has such numbers"),
    ] = None
    id: Annotated[_ID | None, Meta(description="your own id: sent again, it is one request")] = None
    origin: Annotated[Origin | None, Meta(description="AUTOMATIC yields to MANUAL")] = None
    webhook: Annotated[
        _SERVICE | None, Meta(description="the service that hears of its end; it needs an `id`")
    ] = None
    cancel_webhook_on_reply: Annotated[
        bool | None, Meta(description="not where a reply that was held (`wait`) has told of it")
    ] = None


class _Link(_Asked, forbid_unknown_fields=True, kw_only=True):
    slug: Annotated[_SLUG, Meta(description="the courier", examples=["usps"])]
    title: Annotated[_TITLE | None, Meta(description="what you call it, for your own list")] = None


_FIELD_MEMBERS = [
    (name, Annotated[_FIELD | None, Meta(description=means)], None)
    for name, means in FIELDS.items()
]

PostedRequest: Any = msgspec.defstruct(
    "PostedRequest",
    _FIELD_MEMBERS,
    bases=(_Posted,),
    namespace={"__doc__": "A request; members that are not named here are ignored."},
)
"""How a request is described to programs. `request_from` checks it, with a reason for each member;
what this type refuses is refused there."""

PostedLink: Any = msgspec.defstruct(
    "PostedLink",
    _FIELD_MEMBERS,
    bases=(_Link,),
    forbid_unknown_fields=True,
    namespace={"__doc__": "The request that a secret link puts, each time that somebody uses it."},
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a request: `index` is its place among those posted, from 0."""

    index: int
    reason: str
    detail: str


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
    index: int = 0

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


class MissingField(MalformedJob):
    """A request lacks a field that its courier requires."""

    def __init__(self, slug: Slug, name: str) -> None:
        super().__init__("missing_field", f"{slug} needs `{name}` besides the number")
        self.slug = slug
        self.name = name


class Ignored(msgspec.Struct):
    """A member that means nothing, and the one that was probably meant."""

    name: str
    did_you_mean: str | None


class Posted(NamedTuple):
    """What was made of requests that a program posted."""

    good: list[Sendable]
    refused: list[Refusal]
    ignored: list[Ignored]


class SeenIds:
    """The newest ids that clients gave, and which parcel each was for."""

    def __init__(self) -> None:
        self._parcels: OrderedDict[str, tuple[Slug, str]] = OrderedDict()

    def parcel(self, identity: str) -> tuple[Slug, str] | None:
        """Find the parcel that an id was given for."""
        return self._parcels.get(identity)

    def remember(self, taken: Iterable[Sendable]) -> None:
        """Remember to which parcel each of these ids belongs."""
        for each in taken:
            if not each.made_up:
                self._parcels[each.id] = each.slug, each.number
        while len(self._parcels) > SEEN_MOST:
            self._parcels.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _JobMaker:
    """Makes jobs of requests that an account puts in one go."""

    couriers: Catalogue
    fresh_ids: Iterator[str]
    account: Account = MAIN
    traceparent: str | None = None
    seen: SeenIds = field(default_factory=SeenIds)
    ignored: set[str] = field(default_factory=set)
    """Members of requests that mean nothing."""
    given: dict[str, tuple[Slug, str]] = field(default_factory=dict)

    def make(self, members: dict[str, Any], row: int = 0) -> Sendable:
        """Make one; an id is made up where there is none. Raises MalformedJob."""
        slug, number = parcel_from(members, self.couriers.resolve)
        if len(members) > len(_PARCEL):
            check_options(members)
        for name in self.couriers.required_fields(slug):
            if not members.get(name, "").strip():
                raise MissingField(slug, name)
        webhook_of(members.get("webhook"), members.get("id"))
        if made_up := "id" not in members:
            members["id"] = next(self.fresh_ids)
        identity = operation_id(self.account, members["id"])
        if not made_up:
            self._insist_on_one_parcel(identity, (slug, number))
        if self.account != MAIN:
            members["account"] = self.account
        meta: dict[str, object] = {"enqueued_at": round(time.time(), 3)}
        if self.traceparent:
            meta["traceparent"] = self.traceparent
        return Sendable(identity, slug, number, encode_payload(members, meta), row, made_up)

    def _insist_on_one_parcel(self, identity: str, parcel: tuple[Slug, str]) -> None:
        other = self.given.get(identity) or self.seen.parcel(identity)
        if other not in {None, parcel}:
            _, name = account_and_id(identity)
            why = f"the id {name} belongs to another parcel: give each parcel ids of its own"
            raise MalformedJob(ID_REUSED, why)
        self.given[identity] = parcel


def read_posted(body: bytes) -> object:
    """Read one JSON value. Raises MalformedJob: `bad_utf8` or `bad_json`."""
    return read_json(body, "an object of plain members")


def jobs_of_posted(
    posted: Sequence[object],
    couriers: Catalogue,
    seen: SeenIds,
    traceparent: str | None = None,
    account: Account = MAIN,
) -> Posted:
    """Make a job of each request that a program posted, or a refusal.

    A request without a slug is for the one courier that has such numbers. A request that is bytes
    is a line of JSON that nobody has read yet; it may be the row of a table. The ids of sendables
    are those of operations, with their account.
    """
    fresh = _fresh_ids(len(posted))
    maker = _JobMaker(couriers, fresh, account, traceparent_of(traceparent), seen)
    good: list[Sendable] = []
    refused: list[Refusal] = []
    for index, each in enumerate(posted):
        try:
            payload = _payload(each)
            members = _kept(payload, maker.ignored)
            if "slug" not in members and isinstance(members.get("number"), str):
                members["slug"] = couriers.likeliest(members["number"])
            good.append(maker.make(members, index))
        except MalformedJob as error:
            refused.append(Refusal(index, error.reason, error.detail))
    return Posted(good, refused, [_ignored(name) for name in sorted(maker.ignored)])


def _payload(posted: object) -> object:
    """Read a request of any form. Raises MalformedJob."""
    if isinstance(posted, bytes):
        return read_posted(posted)
    if isinstance(posted, Row):
        return {name: value for name, value in _members_of(posted.texts).items() if value != ""}
    return posted


def _ignored(name: str) -> Ignored:
    near = difflib.get_close_matches(name, MEMBERS, 1)
    return Ignored(name, near[0] if near else None)


def job_of(
    members: Mapping[str, Any],
    couriers: Catalogue,
    account: Account,
    traceparent: str | None = None,
) -> Sendable:
    """Make the job of one request that this process puts for an account. Raises MalformedJob."""
    maker = _JobMaker(couriers, _fresh_ids(1), account, traceparent_of(traceparent))
    return maker.make(_kept(members))


def jobs_of_rows(
    rows: Iterable[Row], couriers: Catalogue, account: Account = MAIN
) -> Iterator[Sendable | Bad]:
    """Make a job of each row that somebody wrote, or a complaint."""
    maker = _JobMaker(couriers, (str(uuid.uuid4()) for _ in itertools.count()), account)
    for row in rows:
        try:
            yield maker.make(_members_of(row.texts), row.index)
        except MalformedJob as error:
            yield Bad(row.where, _explained(error, row.texts), row.index)


def _fresh_ids(most: int) -> Iterator[str]:
    """Make ids up, 128 bits each: the system is asked once for all of them, and only if need be."""
    drawn = os.urandom(16 * most).hex()
    for at in range(0, len(drawn), 32):
        yield drawn[at : at + 32]


def _kept(payload: object, ignored: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(payload, Mapping):
        why = f'a request is {kind_of(payload)}: write an object, {{"slug": "…", "number": "…"}}'
        raise MalformedJob("bad_shape", why)
    # All else is ignored, and not passed on: some members are the door's own to say.
    if ignored is not None and len(ignored) < IGNORED_MOST and not _KEPT.issuperset(payload):
        ignored.update(f"{name}"[:FIELD_MOST] for name in set(payload) - _KEPT)
    return {name: value for name, value in payload.items() if name in _KEPT and value is not None}


def _members_of(texts: Mapping[str, str]) -> dict[str, Any]:
    members: dict[str, Any] = {"number": "", **texts}
    for name in _SECONDS_NAMES:
        if text := members.pop(name, ""):
            members[name] = _seconds(name, text)
    if text := members.pop(_HEARS[1], ""):
        members[_HEARS[1]] = {"true": True, "false": False}.get(text.lower(), text)
    return members


def _seconds(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise MalformedJob(
            f"bad_{name}", f"{name} must be a number of seconds, not {text[:40]!r}"
        ) from error


def _explained(error: MalformedJob, texts: Mapping[str, str]) -> str:
    """Word an error for a person, who writes a table or a command."""
    if isinstance(error, MissingField):
        short = error.name.removeprefix(FIELDS_PREFIX)
        return f"{error.slug} needs {short}: give --field {short}=…, or that column"
    if error.reason == ID_REUSED:
        why = "belongs to another number above; give each number its own id"
        return f"the id {texts['id']} {why}"
    if error.reason == "bad_number" and "E+" in texts.get("number", "").upper():
        return f"{error.detail}. A spreadsheet rounded it: format that column as text"
    return error.detail
