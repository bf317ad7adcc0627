"""The re-check policy: when to ask again about a parcel on its way, and about whom first. Pure.

By the settings of `[recheck]`:

================== ==============================================================================
tag                hours until the next check
================== ==============================================================================
Pending            as long as it is known already and `pending_hours`: so they double; PENDING_MOST
                   times `pending_hours` at most
InTransit          `in_transit_hours`; more by SLOWER once nothing has changed for so long
Delivered, Expired never
any other          its setting
================== ==============================================================================

0 hours mean never. Each ± 10 %, so that parcels which were put together do not come back together.

The pace of a check, the time from the last one to it, says in which order checks are put where
more are due than the courier can be asked about: those that go first before the others, and each of
both by how late they are in proportion to their times. So these stretch evenly, and nobody starves:
every FOURTH is of the others while both wait.
"""

from __future__ import annotations

import heapq
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from service.config.schema import Recheck
from tracking.checkpoint import Tag

PENDING_MOST = 12
SLOWER = ((timedelta(days=10), 6), (timedelta(days=3), 2))
"""By how much, the longest time without a change first."""

_HOUR = timedelta(hours=1)
_HOUR_MS = 3_600_000
_MILLISECOND = timedelta(milliseconds=1)
_SETTINGS = MappingProxyType(
    {
        Tag.PENDING: attrgetter("pending_hours"),
        Tag.INFO_RECEIVED: attrgetter("info_received_hours"),
        Tag.IN_TRANSIT: attrgetter("in_transit_hours"),
        Tag.OUT_FOR_DELIVERY: attrgetter("out_for_delivery_hours"),
        Tag.ATTEMPT_FAIL: attrgetter("attempt_fail_hours"),
        Tag.AVAILABLE_FOR_PICKUP: attrgetter("available_for_pickup_hours"),
        Tag.EXCEPTION: attrgetter("exception_hours"),
    }
)
_SPREAD = 0.1

FIRST_TAGS = frozenset({Tag.OUT_FOR_DELIVERY, Tag.EXCEPTION})
FOURTH = 4

EARLY = 0.1
"""By how much of its time a check may be moved, to fill a call."""

_LEADING_BITS = 3
"""Paces are so exact, and so few that they are looked up one by one."""

_PACE = re.compile(r"(first|then) ([1-9][0-9]{0,9})( put)?")
_DAY = timedelta(days=1)


class ParcelAge(NamedTuple):
    """The tag of the parcel `name`, when it became known (`created`) and when it last `changed`."""

    name: str
    tag: Tag
    created: datetime
    changed: datetime


Document = dict[str, Any]
_Late = tuple[float, Document]


class Pace(NamedTuple):
    """The pace of a check: `seconds` after the last one; `first`: before those of others.

    `put`: its request was put and has found no answer yet.
    """

    first: bool
    seconds: int
    put: bool = False

    @property
    def text(self) -> str:
        """How it stands in a document."""
        return f"{'first' if self.first else 'then'} {self.seconds}{' put' if self.put else ''}"

    @property
    def early(self) -> timedelta:
        """How long before its time a check may be put, to fill a call."""
        return timedelta() if self.put else timedelta(seconds=self.seconds) * EARLY


def read_pace(text: object) -> Pace:
    """Read a pace; UNKNOWN_PACE in documents of versions before, and of others."""
    found = _PACE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return UNKNOWN_PACE
    first, seconds, put = found.groups()
    return Pace(first == "first", int(seconds), put is not None)


UNKNOWN_PACE = Pace(first=False, seconds=14_400, put=True)
"""It is not known how long its time was, so it is not moved."""


def pace_of(tag: Tag, expected: object, now: datetime, due: datetime) -> Pace:
    """Tell the pace of the check that follows one at `now` and is `due`.

    Those of parcels go first that are out for delivery, in exception, or will be overdue then.
    """
    seconds = max(1, int((due - now).total_seconds()))
    step = 1 << max(0, seconds.bit_length() - _LEADING_BITS)
    return Pace(tag in FIRST_TAGS or is_overdue(expected, due), seconds // step * step)


def is_overdue(expected: object, at: datetime) -> bool:
    """Whether the day is over on which a courier expected to deliver, as its text begins."""
    if not isinstance(expected, str):
        return False
    try:
        day = datetime.fromisoformat(expected[:10])
        return at >= day.replace(tzinfo=UTC) + _DAY
    except (OverflowError, ValueError):
        return False


def in_turn(
    waiting: Iterable[tuple[Pace, Iterable[Document]]], now: datetime, turn: int
) -> Iterator[Document]:
    """Bring documents into the order of their checks; of each pace they come longest due first.

    `turn`: how many came before.
    """
    firsts, others = list[Iterator[_Late]](), list[Iterator[_Late]]()
    for pace, documents in waiting:
        (firsts if pace.first else others).append(_how_late(documents, pace.seconds, now))
    both = [heapq.merge(*each, key=itemgetter(0), reverse=True) for each in (firsts, others)]
    for place in itertools.count(turn + 1):
        first, second = both if place % FOURTH else reversed(both)
        found = next(first, None) or next(second, None)
        if found is None:
            return
        yield found[1]


def _how_late(documents: Iterable[Document], seconds: int, now: datetime) -> Iterator[_Late]:
    """Tell of each how late it is, as a part of its time from check to check."""
    for each in documents:
        yield (now - each["next_check_at"]).total_seconds() / seconds, each


def next_check(parcel: ParcelAge, now: datetime, recheck: Recheck) -> datetime | None:
    """The time of an active parcel's next check after `now`; None for never.

    Pure: it draws the same for the same check.
    """
    hours = hours_of(parcel.tag, now - parcel.created, now - parcel.changed, recheck)
    if not hours:
        return None
    draw = zlib.crc32(b"%d" % (now.timestamp() * 1000), zlib.crc32(parcel.name.encode())) / 2**32
    wait_ms = hours * _HOUR_MS * (1 - _SPREAD + 2 * _SPREAD * draw)
    return now + _MILLISECOND * int(wait_ms)


def hours_of(tag: Tag, known: timedelta, unchanged: timedelta, recheck: Recheck) -> float:
    """Hours from a check to the next, of a parcel that is `known` and `unchanged` for so long."""
    if tag not in _SETTINGS:
        return 0.0
    hours: float = _SETTINGS[tag](recheck)
    if tag is Tag.PENDING and hours:
        return min(known / _HOUR + hours, PENDING_MOST * hours)
    if tag is Tag.IN_TRANSIT:
        return hours * next((factor for least, factor in SLOWER if unchanged >= least), 1)
    return hours
