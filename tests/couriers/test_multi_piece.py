"""Several pieces under one number."""

from __future__ import annotations

from couriers.reading.checkpoints import latest, together
from tracking.checkpoint import Checkpoint, Tag, Tracking


def seen(at: str, tag: Tag, subtag: str, what: str = "") -> Tracking:
    return Tracking(tag, subtag, (Checkpoint(at, what, tag, subtag),), unknown_codes=(what,))


OUT = seen("2026-03-03T08:00:00", Tag.OUT_FOR_DELIVERY, "OutForDelivery_001", "out")
MOVING = seen("2026-03-02T08:00:00", Tag.IN_TRANSIT, "InTransit_001", "moving")
DELIVERED = seen("2026-03-04T08:00:00", Tag.DELIVERED, "Delivered_001", "there")
LATER = seen("2026-03-05T08:00:00", Tag.DELIVERED, "Delivered_003", "later")
RETURNED = seen("2026-03-01T08:00:00", Tag.EXCEPTION, "Exception_011", "back")


def test_one_piece_is_the_answer() -> None:
    assert together([OUT]) is OUT


def test_all_events_are_kept_and_what_is_under_way_decides() -> None:
    told = together([DELIVERED, MOVING, OUT])

    assert told.tag is Tag.OUT_FOR_DELIVERY
    assert [point.message for point in told.checkpoints] == ["moving", "out", "there"]
    assert told.unknown_codes == ("moving", "out", "there")


def test_delivered_means_that_all_are_and_since_when_the_last_is() -> None:
    assert together([LATER, DELIVERED]).subtag == "Delivered_003"
    assert together([DELIVERED, RETURNED]).subtag == "Exception_011"


def test_of_a_number_that_was_used_again_the_parcel_seen_last_is_the_answer() -> None:
    assert latest([DELIVERED, MOVING, OUT]) is DELIVERED
    assert latest([Tracking(Tag.PENDING, "Pending_001"), MOVING]) is MOVING
