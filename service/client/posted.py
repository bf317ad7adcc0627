"""Requests as programs post them: each made into the body of a job, or refused by its place."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from service.client.put import MEMBERS, Couriers, Sendable, missing_field
from service.tubes.envelope import encode_payload
from service.tubes.payload import (
    FIELD_MOST,
    GIVEN_MOST,
    SECONDS_MOST,
    check_options,
    kind_of,
    parcel_from,
    read_json,
    traceparent_of,
)
from tracking.account import MAIN, Account, account_and_id, operation_id
from tracking.errors import MalformedJob
from tracking.request import FIELDS, SLUG, SLUG_MOST, Origin, Slug

_KEPT = frozenset(MEMBERS)

ID_REUSED = "id_reused"
KNOWN_MOST = 10_000
"""Ids of clients that a process remembers, to refuse one that is used for another parcel."""

_ID = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]
_SECONDS = Annotated[float, Meta(ge=0, le=SECONDS_MOST)]
_TITLE = Annotated[str, Meta(max_length=200)]
_FIELD = Annotated[str, Meta(max_length=FIELD_MOST, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Asked(msgspec.Struct):
    slug: Annotated[
        str,
        Meta(
            pattern=f"^{SLUG}$",
            max_length=SLUG_MOST,
            description="the courier",
            examples=["usps"],
        ),
    ]
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


class _Posted(_Asked):
    id: Annotated[_ID | None, Meta(description="your own id: sent again, it is one request")] = None
    origin: Annotated[Origin | None, Meta(description="AUTOMATIC yields to MANUAL")] = None


class _Link(_Asked, forbid_unknown_fields=True):
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
    """Why a request is not taken: `index` is its place among those posted, from 0."""

    index: int
    reason: str
    detail: str


class KnownIds:
    """The newest ids that clients gave, and which parcel each was for."""

    def __init__(self) -> None:
        self._parcels: OrderedDict[str, tuple[Slug, str]] = OrderedDict()

    def insist(self, each: Sendable, others: Mapping[str, Sendable]) -> None:
        """Raise MalformedJob where another parcel has this id, among `others` too."""
        other = others.get(each.id)
        known = (other.slug, other.number) if other else self._parcels.get(each.id)
        if known not in {None, (each.slug, each.number)}:
            _, name = account_and_id(each.id)
            why = f"the id {name} belongs to another parcel: give each parcel ids of its own"
            raise MalformedJob(ID_REUSED, why)

    def remember(self, taken: Iterable[Sendable]) -> None:
        """Remember to which parcel each of these ids belongs."""
        for each in taken:
            if not each.made_up:
                self._parcels[each.id] = each.slug, each.number
        while len(self._parcels) > KNOWN_MOST:
            self._parcels.popitem(last=False)


def read_posted(body: bytes) -> object:
    """Read one JSON value. Raises MalformedJob: `bad_utf8` or `bad_json`."""
    return read_json(body, "an object of plain members")


def sendables_of(
    posted: Sequence[object],
    couriers: Couriers,
    known: KnownIds,
    traceparent: str | None = None,
    account: Account = MAIN,
) -> tuple[list[Sendable], list[Refusal]]:
    """Make a job of each request, or a refusal; an id is made up where there is none.

    A request that is bytes is a line of JSON that nobody has read yet. The ids of sendables are
    those of operations, with their account.
    """
    meta: dict[str, object] = {"enqueued_at": round(time.time(), 3)}
    if traced := traceparent_of(traceparent):
        meta["traceparent"] = traced
    jobs = _Jobs(couriers, account, meta, _fresh_ids(len(posted)))
    good: list[Sendable] = []
    given: dict[str, Sendable] = {}
    refused: list[Refusal] = []
    for index, each in enumerate(posted):
        try:
            payload = read_posted(each) if isinstance(each, bytes) else each
            made = jobs.make(_kept(payload), index)
            if not made.made_up:
                known.insist(made, given)
                given[made.id] = made
        except MalformedJob as error:
            refused.append(Refusal(index, error.reason, error.detail))
        else:
            good.append(made)
    return good, refused


def _fresh_ids(most: int) -> Iterator[str]:
    """Make ids up, 128 bits each: the system is asked once for all of them, and only if need be."""
    drawn = os.urandom(16 * most).hex()
    for at in range(0, len(drawn), 32):
        yield drawn[at : at + 32]


def _kept(payload: object) -> dict[str, Any]:
    if not isinstance(payload, dict):
        why = f'a request is {kind_of(payload)}: write an object, {{"slug": "…", "number": "…"}}'
        raise MalformedJob("bad_shape", why)
    # All else is ignored, and not passed on: some members are the door's own to say.
    return {name: value for name, value in payload.items() if name in _KEPT and value is not None}


class _Jobs(NamedTuple):
    """Makes jobs of what an account posted in one go."""

    couriers: Couriers
    account: Account
    meta: Mapping[str, object]
    fresh: Iterator[str]

    def make(self, kept: dict[str, Any], index: int) -> Sendable:
        """Raises MalformedJob."""
        slug, number = parcel_from(kept, self.couriers.resolve)
        if len(kept) > len(("slug", "number")):
            check_options(kept)
        if name := missing_field(slug, kept, self.couriers):
            raise MalformedJob("missing_field", f"{slug} needs `{name}` besides the number")
        made_up = "id" not in kept
        if made_up:
            kept["id"] = next(self.fresh)
        identity = operation_id(self.account, kept["id"])
        if self.account != MAIN:
            kept["account"] = self.account
        body = encode_payload(kept, self.meta)
        return Sendable(identity, slug, number, body, index, made_up)
