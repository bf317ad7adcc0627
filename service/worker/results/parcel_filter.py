"""Which parcels of an account are listed, and in which order: as conditions of MongoDB."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, TypeVar

import pymongo
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import ExecutionTimeout, NetworkTimeout, OperationFailure

from service.worker.results.database import Document
from service.worker.results.document import document_id
from tracking.checkpoint import Tag
from tracking.errors import ResultsDown
from tracking.request import MAIN, Account

T = TypeVar("T")

Order = list[tuple[str, int]]

Members = Mapping[str, Any] | None
"""Which members of documents are read; None: all."""

SECONDS = 0.5
"""How long MongoDB may take for a page."""

BATCH = 500

_ENDED = frozenset({Tag.DELIVERED, Tag.EXPIRED})
"""Tags that no active parcel has."""

_NO_SUCH_HINT = 2


class TooMuch(Exception):
    """A list takes MongoDB too long; the text says what to do instead."""

    def __init__(self) -> None:
        super().__init__(
            "this is too much to look through at once: narrow it, by a tag, a courier, a later "
            "time, or more of the number"
        )


class Sort(StrEnum):
    """The order of a list; a minus begins with the newest."""

    UPDATED = "-updated"
    CHANGES = "updated"
    CREATED = "-created"
    FIRST = "created"
    NEXT = "next_check"

    @property
    def member(self) -> str:
        """The member of documents by which they are sorted."""
        return {"updated": "updated_at", "created": "created_at"}.get(
            self.removeprefix("-"), "next_check_at"
        )

    @property
    def direction(self) -> int:
        """As MongoDB writes it."""
        return DESCENDING if self.startswith("-") else ASCENDING


@dataclass(frozen=True, slots=True)
class Which:
    """Which parcels of an account are listed: those that agree with all that is given.

    `since`: changed from then on. `search` begins a number, or what the account says of a parcel;
    `label` is one of its labels. `after`: the last one of the page before, by its time and its
    parcel.
    """

    account: Account
    tags: tuple[Tag, ...] = ()
    slug: str = ""
    active: bool | None = None
    since: dt.datetime | None = None
    search: str = ""
    label: str = ""
    sort: Sort = Sort.UPDATED
    after: tuple[dt.datetime, str] | None = None

    @property
    def behind(self) -> tuple[dt.datetime, str] | None:
        """The last one of the page before, by its time and its `_id`."""
        return self.after and (self.after[0], document_id(self.after[1], self.account))

    @property
    def is_sought(self) -> bool:
        """Whether they are found by words."""
        return bool(self.search or self.label)


def filters_of(which: Which) -> Document:
    """Express all filters but the account, and tags where the index begins with them."""
    wanted: Document = {}
    if which.slug:
        wanted["_id"] = {"$regex": f"^{re.escape(which.slug)}:"}
    if which.active is not None:
        wanted["active"] = {"$eq": which.active}
    if which.since is not None:
        wanted["updated_at"] = {"$gte": which.since}
    if which.tags and which.sort.member == "created_at":
        wanted["tag"] = tagged(which.tags)
    return wanted


def tagged(tags: Sequence[Tag]) -> Document:
    """Ask for one of these tags."""
    return {"$in": [each.value for each in tags]}


def tags_of(which: Which) -> list[Tag]:
    """All that parcels of the list may have: the index has one after the other."""
    over = _ENDED if which.active or which.sort is Sort.NEXT else ()
    return [each for each in which.tags or tuple(Tag) if each not in over]


def following(which: Which) -> list[tuple[Document, Order]]:
    """Ask for what follows the last one of the page before, in its order."""
    order = order_of(which)
    if which.behind is None:
        return [({}, order)]
    (at, name), member = which.behind, which.sort.member
    sign = "$lt" if which.sort.direction == DESCENDING else "$gt"
    same = {member: {"$eq": at}, "_id": {sign: name}}
    return [(same, order[1:]), ({member: {sign: at}}, order)]


def order_of(which: Which) -> Order:
    """Give the order of a list; no two are equal in it."""
    return [(which.sort.member, which.sort.direction), ("_id", which.sort.direction)]


def both(one: Document, other: Document) -> Document:
    """Join conditions, of which each member's are operators."""
    return one | {name: one.get(name, {}) | each for name, each in other.items()}


def in_batches(those: Iterator[T]) -> Iterator[list[T]]:
    """Take BATCH at a time."""
    while some := list(islice(those, BATCH)):
        yield some


def of_account(account: Account) -> Document:
    """Ask for what an account has."""
    return {"account": {"$eq": None if account == MAIN else account}}


def ends_with_account(account: Account) -> str:
    """The end of each `_id` of an account."""
    return "^[^@]*$" if account == MAIN else f"@{re.escape(account)}$"


@contextmanager
def in_time() -> Iterator[None]:
    """Give up what takes MongoDB longer than SECONDS. Raises TooMuch."""
    try:
        with pymongo.timeout(SECONDS):
            yield
    except (ExecutionTimeout, NetworkTimeout) as error:
        raise TooMuch from error
    except OperationFailure as error:
        if error.code == _NO_SUCH_HINT:
            why = "the lists of parcels have no index yet"
            raise ResultsDown(why, "Start a worker of this version, which makes it.") from error
        raise
