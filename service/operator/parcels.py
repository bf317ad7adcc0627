"""The parcels of an account: listed, searched and counted. For one verb, or a process that serves.

A parcel is listed once something is stored of it: an answer, or how the first call failed.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from service.operator.connections import Collections
from service.operator.stored import shown
from service.worker.results.database import Document
from service.worker.results.document import parcel_in, stored_now
from service.worker.results.parcel_lists import (
    SOUGHT_MOST,
    Sort,
    TooMuch,
    Which,
    counted,
    every,
    listed,
)
from service.worker.results.queries import (
    COUNTED_MOST,
    count_in_time,
    delivered_since,
    overdue,
)
from service.worker.results.shipments import spoken_of
from tracking.checkpoint import Tag
from tracking.errors import NotDone
from tracking.request import Account

__all__ = ["COUNTED_MOST", "SOUGHT_MOST", "Sort", "Which", "spoken_of"]

SUMMARY: Mapping[str, Any] = {
    **dict.fromkeys(("slug", "tracking_number", "tag", "subtag", "active", "error"), 1),
    **dict.fromkeys(("expected_delivery", "delivered_at", "created_at", "updated_at"), 1),
    **dict.fromkeys(("last_checked_at", "next_check_at"), 1),
    "checkpoints": {"$slice": -1},
}
"""What rows show: of the checkpoints the newest."""

COLUMNS = (
    *("slug", "number", "tag", "subtag", "title", "order", "labels", "last_event", "last_event_at"),
    *("expected_delivery", "delivered_at", "created_at", "updated_at", "last_checked_at"),
    "next_check_at",
)
"""The columns of an exported CSV file."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Narrow(NotDone):
    """A list takes MongoDB too long: less is to be asked for."""


class Row(NamedTuple):
    """A parcel in a list: what is stored of it, and what its account says of it."""

    parcel: Document
    words: Mapping[str, Any]

    @property
    def last(self) -> Mapping[str, Any]:
        """Its newest checkpoint."""
        points: Sequence[Mapping[str, Any]] = self.parcel.get("checkpoints") or ({},)
        return points[-1]

    @property
    def order(self) -> str:
        """What its account calls the order."""
        return self.words.get("order_number") or self.words.get("order_id") or ""

    @property
    def labels(self) -> Sequence[str]:
        """Its labels."""
        return self.words.get("shipment_tags") or ()


class Page(NamedTuple):
    """A page of a list. `last`: behind which the next one begins, None where there is none.

    `narrow`: more than SOUGHT_MOST are found by what is sought, and it is a page of the first ones.
    """

    rows: Sequence[Row]
    last: tuple[dt.datetime, str] | None
    narrow: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """How many parcels an account has by tag, each up to COUNTED_MOST, and when that was so."""

    tags: Mapping[Tag, int]
    at: dt.datetime

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.tags.values())

    @property
    def is_exact(self) -> bool:
        """Whether no tag has more than are counted."""
        return all(count < COUNTED_MOST for count in self.tags.values())


def page_of(
    stores: Collections, which: Which, most: int, members: Mapping[str, Any] | None = SUMMARY
) -> Page:
    """List a page of parcels; `members` are those of documents that are read, None for all.

    Raises Narrow, PyMongoError.
    """
    with _in_time():
        found, narrow = listed(stores, which, most, members)
    last = None
    # Behind the last one a reader of changes goes on, once there are more.
    if found and (len(found) == most or which.sort is Sort.CHANGES):
        last = found[-1][which.sort.member], parcel_in(found[-1]["_id"])
    return Page(_rows(stores, which.account, found), last, narrow)


def _rows(stores: Collections, account: Account, found: Sequence[Document]) -> list[Row]:
    parcels = [parcel_in(each["_id"]) for each in found]
    said = spoken_of(stores.shipments, account, parcels)
    return [
        Row(shown(each), said.get(parcel, {})) for each, parcel in zip(found, parcels, strict=True)
    ]


def counts_of(stores: Collections, account: Account) -> Counts:
    """Count an account's parcels by tag. Raises Narrow, PyMongoError."""
    with _in_time():
        return Counts(counted(stores.tracking, account), stored_now())


class Today(NamedTuple):
    """How many parcels were delivered today (UTC) or are overdue, each up to COUNTED_MOST.

    None: MongoDB takes too long to count them.
    """

    delivered: int | None
    overdue: int | None


def today_of(stores: Collections, account: Account) -> Today:
    """Count what was delivered today, and what is overdue. Raises PyMongoError."""
    now = stored_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    asked = (delivered_since(account, midnight), overdue(account, now))
    return Today(*(count_in_time(stores.tracking, each) for each in asked))


@contextmanager
def _in_time() -> Iterator[None]:
    try:
        yield
    except TooMuch as error:
        raise Narrow(f"{error}") from error


def exported(stores: Collections, which: Which) -> Iterator[str]:
    """Write all that agree as CSV, some rows at a time. Raises PyMongoError."""
    yield written([COLUMNS])
    for found in every(stores, which, SUMMARY):
        yield written(map(_cells, _rows(stores, which.account, found)))


def _cells(row: Row) -> Iterator[str]:
    parcel, last = row.parcel, row.last
    yield from (str(parcel.get(name) or "") for name in ("slug", "tracking_number", *COLUMNS[2:4]))
    yield from (row.words.get("title") or "", row.order, ", ".join(row.labels))
    yield from (last.get("message", ""), last.get("checkpoint_time", ""))
    for name in COLUMNS[9:]:
        value = parcel.get(name)
        yield value.isoformat() if isinstance(value, dt.datetime) else str(value or "")


def written(rows: Iterable[Iterable[str]]) -> str:
    """Write rows of CSV of which no spreadsheet takes a text for a formula."""
    text = io.StringIO()
    csv.writer(text).writerows(map(_plain, rows))
    return text.getvalue()


def _plain(cells: Iterable[str]) -> list[str]:
    return [f"'{each}" if each.startswith(_FORMULA) else each for each in cells]
