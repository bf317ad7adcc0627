"""Numbers that are used again, and parcels of which nothing is heard any more."""

from __future__ import annotations

import datetime as dt

import pytest
from store_parcels import (
    FIRST,
    NAME,
    SECOND,
    START,
    THIRD,
    answer,
    call,
    days,
    delivered,
    hours,
    on_its_way,
    scan,
    stored,
    times,
)

from service.config.schema import Recheck
from service.results.merge import merge
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking

LATE = scan("2026-04-20T10:00:00", "Accepted", city="SEATTLE")


@pytest.mark.parametrize(
    ("first", "gap", "again"),
    [
        (delivered(FIRST, THIRD), 29, False),
        (delivered(FIRST, THIRD), 31, True),
        (Tracking(Tag.EXCEPTION, "Exception_011", (FIRST, THIRD)), 31, True),
        (on_its_way(FIRST, THIRD), 31, False),
        (Tracking(Tag.EXPIRED, "Expired_001", (FIRST, THIRD)), 31, False),
        (on_its_way(FIRST, THIRD), 121, True),
    ],
)
def test_a_number_is_used_again_when_a_new_journey_begins_long_after_the_old_one(
    first: Tracking, gap: float, *, again: bool
) -> None:
    old = stored(first)
    begins = dt.datetime.fromisoformat(THIRD.checkpoint_time) + days(gap)
    new_scan = scan(begins.isoformat(), "Accepted", city="SEATTLE")

    merged = merge(old, answer(call(days(gap + 2)), on_its_way(new_scan)))

    assert (times(merged.document) == [new_scan.checkpoint_time]) is again
    assert [each["_id"] for each in merged.past] == (
        [f"{NAME}:{FIRST.checkpoint_time}"] if again else []
    )


def test_a_number_that_is_used_again_starts_again_and_the_old_parcel_is_kept() -> None:
    old = stored(delivered(FIRST, THIRD))

    merged = merge(old, answer(call(days(60)), on_its_way(LATE)))

    assert merged.past == (old | {"_id": f"{NAME}:{FIRST.checkpoint_time}"},)
    new = merged.document
    assert (new["_id"], new["tracked_count"], len(new["attempts"])) == (NAME, 1, 1)
    assert new["created_at"] == new["updated_at"] == START + days(60)


def test_thirty_days_without_anything_new_mean_expired() -> None:
    soon = merge(stored(), answer(call(days(29)), on_its_way(FIRST, SECOND))).document
    late = merge(stored(), answer(call(days(30)), on_its_way(FIRST, SECOND))).document

    assert (soon["tag"], soon["active"]) == ("InTransit", True)
    assert (late["tag"], late["subtag"], late["active"]) == ("Expired", "Expired_001", False)
    assert (late["next_check_at"], late["updated_at"]) == (None, START + days(30))


def test_the_days_until_expired_are_a_setting() -> None:
    week = Recheck(expires_after_days=7)

    soon = merge(stored(), answer(call(days(6)), on_its_way(FIRST, SECOND)), week).document
    late = merge(stored(), answer(call(days(7)), on_its_way(FIRST, SECOND)), week).document

    assert (soon["tag"], late["tag"]) == ("InTransit", "Expired")


def test_a_number_that_stays_unknown_expires_too() -> None:
    old = stored(NOT_FOUND_YET)

    assert merge(old, answer(call(days(31)), NOT_FOUND_YET)).document["tag"] == "Expired"


def test_expired_stays_expired_until_the_courier_says_something_new() -> None:
    expired = merge(stored(), answer(call(days(30)), on_its_way(FIRST, SECOND))).document

    same = merge(expired, answer(call(days(31)), on_its_way(FIRST, SECOND))).document
    news = merge(same, answer(call(days(32)), on_its_way(FIRST, SECOND, THIRD))).document
    end = merge(same, answer(call(days(32)), delivered(FIRST, SECOND))).document

    assert (same["tag"], same["updated_at"]) == ("Expired", START + days(30))
    assert (news["tag"], news["active"]) == ("InTransit", True)
    assert end["tag"] == "Delivered"


def test_a_courier_that_says_expired_again_says_nothing_new() -> None:
    expired = Tracking(Tag.EXPIRED, "Expired_001", (FIRST,))
    old = stored(expired)

    new = merge(old, answer(call(hours(1)), expired)).document

    assert (new["tag"], new["updated_at"]) == ("Expired", old["updated_at"])
