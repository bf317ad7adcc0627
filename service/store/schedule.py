"""When to ask the courier again about a parcel that is on its way.

================== ==============================================================================
tag                hours until the next check
================== ==============================================================================
Pending            1, 2, 4, 8, then 12 each time: as long as it is known already, 1 to 12
InfoReceived       6
InTransit          4; 8 once nothing has changed for 3 days; 24 after 10 days
OutForDelivery     0.75
AttemptFail        4
AvailableForPickup 8
Exception          6
Delivered, Expired never
================== ==============================================================================

Each ± 10 %, so that parcels which were put together do not come back together.
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from tracking.checkpoint import Tag

EXPIRY = timedelta(days=30)
"""Nothing new for so long means Expired: no more checks."""

_HOUR = timedelta(hours=1)
_HOUR_MS = 3_600_000
_MILLISECOND = timedelta(milliseconds=1)
_HOURS = MappingProxyType(
    {
        Tag.INFO_RECEIVED: 6.0,
        Tag.OUT_FOR_DELIVERY: 0.75,
        Tag.ATTEMPT_FAIL: 4.0,
        Tag.AVAILABLE_FOR_PICKUP: 8.0,
        Tag.EXCEPTION: 6.0,
    }
)
_FALLBACK_HOURS = 3.0
_PENDING_MOST = 12.0
_IN_TRANSIT = ((timedelta(days=10), 24.0), (timedelta(days=3), 8.0), (timedelta.min, 4.0))
_SPREAD = 0.1


class Standing(NamedTuple):
    """How a parcel stands: known since `created`, last `changed`; `name` is its `_id`."""

    name: str
    tag: Tag
    created: datetime
    changed: datetime


def next_check(parcel: Standing, now: datetime) -> datetime:
    """When to check an active parcel after `now`. Pure: it draws the same for the same check."""
    hours = _hours(parcel.tag, now - parcel.created, now - parcel.changed)
    draw = zlib.crc32(b"%d" % (now.timestamp() * 1000), zlib.crc32(parcel.name.encode())) / 2**32
    wait_ms = hours * _HOUR_MS * (1 - _SPREAD + 2 * _SPREAD * draw)
    return now + _MILLISECOND * int(wait_ms)


def _hours(tag: Tag, known: timedelta, unchanged: timedelta) -> float:
    if tag is Tag.PENDING:
        # Waiting as long as it was known before doubles the wait each time.
        return min(known / _HOUR + 1, _PENDING_MOST)
    if tag is Tag.IN_TRANSIT:
        for least, hours in _IN_TRANSIT:
            if unchanged >= least:
                return hours
    return _HOURS.get(tag, _FALLBACK_HOURS)
