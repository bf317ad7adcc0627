"""Which events a change of a parcel makes."""

from __future__ import annotations

from typing import Any

import pytest

from service.worker.results.change import EventName, changed_members, events_of

SCAN = {"checkpoint_time": "2026-11-01T10:00:00", "message": "Arrived"}


def document(**members: Any) -> dict[str, Any]:
    """Make a parcel on its way, with the members that matter."""
    content = {"tag": "InTransit", "subtag": "InTransit_001", "checkpoints": [SCAN]}
    return {"expected_delivery": None, "attempts": [], "tracked_count": 1} | content | members


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tag": "OutForDelivery", "subtag": "OutForDelivery_001"}, ("tag", "subtag")),
        ({"subtag": "InTransit_002"}, ("subtag",)),
        ({"expected_delivery": "2026-11-05"}, ("expected_delivery",)),
        ({"checkpoints": [SCAN, SCAN | {"message": "Left"}]}, ("checkpoints",)),
    ],
)
def test_a_change_names_the_members_that_changed(
    change: dict[str, Any], named: tuple[str, ...]
) -> None:
    assert changed_members(document(), document(**change)) == named
    assert events_of(document(), document(**change)) == (EventName.PARCEL_CHANGED,)


def test_what_only_counts_or_notes_is_no_change() -> None:
    assert events_of(document(), document(tracked_count=2, attempts=[{}])) == ()


def test_a_first_answer_is_a_change_unless_the_courier_knows_nothing_yet() -> None:
    unknown = document(tag="Pending", subtag="Pending_001", checkpoints=[])
    assert events_of(None, unknown) == ()
    assert changed_members(None, document()) == ("tag", "subtag", "checkpoints")


@pytest.mark.parametrize(
    ("tag", "event"),
    [
        ("Delivered", EventName.PARCEL_DELIVERED),
        ("Exception", EventName.PARCEL_EXCEPTION),
        ("Expired", EventName.PARCEL_EXPIRED),
    ],
)
def test_an_end_has_an_event_of_its_own_once(tag: str, event: EventName) -> None:
    ended = document(tag=tag, subtag=f"{tag}_001")
    assert events_of(document(), ended) == (EventName.PARCEL_CHANGED, event)
    later = ended | {"checkpoints": [SCAN, SCAN]}
    assert events_of(ended, later) == (EventName.PARCEL_CHANGED,)
