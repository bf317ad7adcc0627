"""Canada Post names a zone beside its local times: what that says of the instant."""

from __future__ import annotations

import pytest

from couriers import canada_post
from tracking.checkpoint import Tracking


def parse(zone: str, at: str) -> Tracking:
    day, _, clock = at.partition("T")
    told = {"event-identifier": "0405", "event-date": day, "event-time": clock}
    told["event-time-zone"] = zone
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in told.items())
    body = f"<tracking-detail><occurrence>{inside}</occurrence></tracking-detail>"
    return canada_post.parse(200, {}, body.encode(), "7000000000000018")


@pytest.mark.parametrize(
    ("zone", "at", "offset"),
    [
        ("EST", "2026-01-15T12:00:00", "-05:00"),
        ("EDT", "2026-07-15T12:00:00", "-04:00"),
        ("NDT", "2026-07-15T12:00:00", "-02:30"),
        ("PST", "2026-01-15T12:00:00", "-08:00"),
        ("NST", "2026-02-02T12:00:00", "-03:30"),
        # Saskatchewan has no summer time, and a name of its own.
        ("CSTNO", "2026-02-02T12:00:00", "-06:00"),
        ("CSTNO", "2026-07-15T12:00:00", "-06:00"),
        ("X", "2026-02-02T12:00:00", None),
        # The hour that comes twice: its name says which of the two.
        ("EDT", "2026-11-01T01:30:00", "-04:00"),
        ("EST", "2026-11-01T01:30:00", "-05:00"),
        # What the name and the date say differs, and nothing tells which of them is right.
        ("EST", "2026-07-15T12:00:00", None),
        ("MST", "2026-07-15T12:00:00", None),
        ("EDT", "2026-01-15T12:00:00", None),
    ],
)
def test_an_offset_is_told_where_zone_and_date_agree(
    zone: str, at: str, offset: str | None
) -> None:
    [point] = parse(zone, at).checkpoints

    assert (point.checkpoint_time, point.checkpoint_offset) == (at, offset)
    assert (point.checkpoint_utc is None) == (offset is None)
