"""When an active parcel is looked at again. Pure.

==================== ==================================================================
tag                  after
==================== ==================================================================
Pending              1, 2, 4, 8, then every 12 h
InfoReceived         6 h
InTransit            4 h; 8 h when nothing changed for 3 days, 24 h after 10
OutForDelivery       45 min
AttemptFail          4 h
AvailableForPickup   8 h
Exception            6 h
Delivered, Expired   never; nor when it was returned or lost
==================== ==================================================================

Each ±10 %, so that parcels which were looked at together do not stay together.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from tracking.checkpoint import Tag

_HOUR = dt.timedelta(hours=1)
_FIXED = {
    Tag.INFO_RECEIVED: 6 * _HOUR,
    Tag.OUT_FOR_DELIVERY: dt.timedelta(minutes=45),
    Tag.ATTEMPT_FAIL: 4 * _HOUR,
    Tag.AVAILABLE_FOR_PICKUP: 8 * _HOUR,
    Tag.EXCEPTION: 6 * _HOUR,
}
_IN_TRANSIT = (
    (dt.timedelta(days=10), 24 * _HOUR),
    (dt.timedelta(days=3), 8 * _HOUR),
    (dt.timedelta(0), 4 * _HOUR),
)
_PENDING_MOST = 12 * _HOUR
_JITTER = 0.1


def next_check(
    tag: Tag, answers: int, unchanged: dt.timedelta, draw: Callable[[], float]
) -> dt.timedelta:
    """How long after an answer the next look is due, for a parcel that is active.

    `answers` so far, 1 or more; `unchanged`: since anything changed; `draw` gives [0, 1).
    """
    if tag is Tag.PENDING:
        wait = min(_PENDING_MOST, _HOUR * (1 << min(answers - 1, 8)))
    elif tag is Tag.IN_TRANSIT:
        wait = next(wait for quiet, wait in _IN_TRANSIT if unchanged >= quiet)
    else:
        wait = _FIXED.get(tag, _PENDING_MOST)
    return wait * (1 - _JITTER + 2 * _JITTER * draw())
