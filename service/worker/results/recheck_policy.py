"""The re-check policy: when to ask the courier again about a parcel on its way. Pure.

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
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

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


class ParcelAge(NamedTuple):
    """The tag of the parcel `name`, when it became known (`created`) and when it last `changed`."""

    name: str
    tag: Tag
    created: datetime
    changed: datetime


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
