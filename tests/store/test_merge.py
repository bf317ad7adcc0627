"""What a new answer, or a failure, makes of the stored document."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from store_parcels import (
    NAME,
    NOW,
    NUMBER,
    START,
    answer,
    attempt,
    call,
    days,
    delivered,
    failure,
    hours,
    on_its_way,
    scan,
)

from service.store.document import Answer
from service.store.merge import merge
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking
from tracking.errors import CourierDown, InvalidNumber

Document = dict[str, Any]

FIRST = scan("2026-02-27T08:00:00", "Accepted", city="MIAMI")
SECOND = scan("2026-02-28T09:30:00", "Departed", city="MIAMI")
THIRD = scan("2026-03-01T07:15:00", "Arrived", city="ATLANTA")


def times(document: Document) -> list[str]:
    return [each["checkpoint_time"] for each in document["checkpoints"]]


JOURNEY = on_its_way(FIRST, SECOND)


def stored(tracking: Tracking = JOURNEY, after: dt.timedelta = NOW) -> Document:
    return merge(None, answer(call(after), tracking)).document


def test_the_first_answer_becomes_the_document_of_the_contract() -> None:
    utc = dt.datetime(2026, 2, 27, 13, 0, tzinfo=dt.UTC)
    first = scan(
        "2026-02-27T08:00:00", "Accepted", checkpoint_offset="-05:00", checkpoint_utc=utc,
        country_iso3="USA", city="MIAMI", state="FL", postal_code="33101", location="MIAMI, FL",
        raw_tag="03",
    )  # fmt: skip
    tracking = on_its_way(first, expected_delivery="2026-03-04", signed_by="J DOE", origin="USA")

    document = merge(None, answer(call(), tracking)).document

    next_check_at = document.pop("next_check_at")
    assert abs(next_check_at - START - hours(4)) <= hours(0.4)
    assert document == {
        "_id": NAME,
        "slug": "usps",
        "tracking_number": NUMBER,
        "tag": "InTransit",
        "subtag": "InTransit_003",
        "delivered": False,
        "active": True,
        "checkpoints": [
            {
                "checkpoint_time": "2026-02-27T08:00:00",
                "checkpoint_offset": "-05:00",
                "checkpoint_utc": utc,
                "message": "Accepted",
                "country_name": "UNITED STATES",
                "country_iso3": "USA",
                "city": "MIAMI",
                "state": "FL",
                "postal_code": "33101",
                "location": "MIAMI, FL",
                "tag": "InTransit",
                "subtag": "InTransit_003",
                "raw_tag": "03",
            }
        ],
        "expected_delivery": "2026-03-04",
        "delivered_at": None,
        "delivered_at_utc": None,
        "signed_by": "J DOE",
        "origin": "USA",
        "destination": None,
        "error": None,
        "attempts": [
            {
                "at": START + dt.timedelta(seconds=1),
                "outcome": "answered",
                "http_status": 200,
                "ms": 123,
                "excerpt": "",
            }
        ],
        "tracked_count": 1,
        "created_at": START,
        "updated_at": START,
        "last_checked_at": START,
        "observed_us": round(START.timestamp() * 1_000_000),
        "revision": 0,
    }


def test_an_equal_observation_changes_nothing() -> None:
    old = stored()

    assert merge(old, answer(call(), delivered(THIRD))).document is old


def test_an_older_observation_changes_nothing() -> None:
    old = stored(after=hours(2))

    assert merge(old, answer(call(hours(1)), delivered(THIRD))).document is old


def test_merging_changes_nothing_in_place() -> None:
    old = stored()
    before = repr(old)

    merge(old, answer(call(hours(1)), delivered(FIRST, SECOND, THIRD)))
    merge(old, failure(call(hours(2)), final=True))

    assert repr(old) == before


def test_a_newer_answer_that_says_the_same_moves_only_the_time_of_the_check() -> None:
    old = stored()

    new = merge(old, answer(call(hours(1)), on_its_way(FIRST, SECOND))).document

    assert new["last_checked_at"] == START + hours(1)
    assert new["tracked_count"] == 2
    assert new["updated_at"] == old["updated_at"]
    assert new["created_at"] == old["created_at"]


def test_a_newer_answer_that_says_more_is_an_update() -> None:
    new = merge(stored(), answer(call(hours(1)), delivered(FIRST, SECOND, THIRD))).document

    assert (new["tag"], new["delivered"], new["active"]) == ("Delivered", True, False)
    assert new["next_check_at"] is None
    assert new["updated_at"] == START + hours(1)
    assert times(new) == [FIRST.checkpoint_time, SECOND.checkpoint_time, THIRD.checkpoint_time]


def test_an_empty_answer_erases_nothing() -> None:
    old = stored(on_its_way(FIRST, SECOND, expected_delivery="2026-03-04"))

    new = merge(old, answer(call(hours(1)), NOT_FOUND_YET)).document

    assert times(new) == times(old)
    assert (new["tag"], new["expected_delivery"]) == ("InTransit", "2026-03-04")
    assert new["updated_at"] == old["updated_at"]
    assert new["tracked_count"] == 2


def test_an_answer_without_checkpoints_may_still_tell_the_status() -> None:
    new = merge(stored(), answer(call(hours(1)), delivered())).document

    assert (new["tag"], new["delivered"]) == ("Delivered", True)
    assert times(new) == [FIRST.checkpoint_time, SECOND.checkpoint_time]


def test_a_shorter_answer_keeps_what_is_older_than_its_oldest() -> None:
    old = stored(on_its_way(FIRST, SECOND, THIRD))

    new = merge(old, answer(call(hours(1)), on_its_way(SECOND))).document

    assert times(new) == [FIRST.checkpoint_time, SECOND.checkpoint_time]


def test_a_list_of_the_same_length_that_has_moved_on_forgets_nothing() -> None:
    new = merge(stored(), answer(call(hours(1)), on_its_way(SECOND, THIRD))).document

    assert times(new) == [FIRST.checkpoint_time, SECOND.checkpoint_time, THIRD.checkpoint_time]


def test_a_corrected_time_of_the_first_scan_is_not_one_more_scan() -> None:
    corrected = scan("2026-02-27T08:05:00", "Accepted", city="MIAMI")

    new = merge(stored(), answer(call(hours(1)), on_its_way(corrected, SECOND))).document

    assert times(new) == [corrected.checkpoint_time, SECOND.checkpoint_time]


def test_older_is_decided_by_the_instant_where_both_have_one() -> None:
    hong_kong = scan(
        "2026-02-28T20:00:00",
        "Left Hong Kong",
        checkpoint_offset="+08:00",
        checkpoint_utc=dt.datetime(2026, 2, 28, 12, tzinfo=dt.UTC),
    )
    los_angeles = scan(
        "2026-02-28T19:00:00",
        "Arrived in Los Angeles",
        checkpoint_offset="-08:00",
        checkpoint_utc=dt.datetime(2026, 3, 1, 3, tzinfo=dt.UTC),
    )

    old = stored(on_its_way(hong_kong))
    new = merge(old, answer(call(hours(1)), on_its_way(los_angeles))).document

    assert times(new) == [hong_kong.checkpoint_time, los_angeles.checkpoint_time]


@pytest.mark.parametrize("text", ["yesterday", "2026-02-30T00:00:00", ""])
def test_times_that_cannot_be_read_are_compared_as_they_are(text: str) -> None:
    old = stored(on_its_way(scan(text), SECOND))

    new = merge(old, answer(call(hours(1)), delivered(SECOND, THIRD))).document

    assert times(new)[-2:] == [SECOND.checkpoint_time, THIRD.checkpoint_time]


LATE = scan("2026-04-20T10:00:00", "Accepted", city="SEATTLE")


@pytest.mark.parametrize(
    ("first", "gap", "anew"),
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
    first: Tracking, gap: float, *, anew: bool
) -> None:
    old = stored(first)
    begins = dt.datetime.fromisoformat(THIRD.checkpoint_time) + days(gap)
    new_scan = scan(begins.isoformat(), "Accepted", city="SEATTLE")

    merged = merge(old, answer(call(days(gap + 2)), on_its_way(new_scan)))

    assert (times(merged.document) == [new_scan.checkpoint_time]) is anew
    assert [each["_id"] for each in merged.past] == (
        [f"{NAME}:{FIRST.checkpoint_time}"] if anew else []
    )


def test_a_number_that_is_used_again_starts_anew_and_the_old_parcel_is_kept() -> None:
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


def test_a_failure_before_any_answer_makes_a_pending_document() -> None:
    document = merge(None, failure(call())).document

    assert (document["tag"], document["subtag"]) == ("Pending", "Pending_001")
    assert (document["tracked_count"], document["last_checked_at"]) == (0, None)
    assert (document["error"], document["observed_us"]) == (None, 0)
    assert [each["outcome"] for each in document["attempts"]] == ["courier_down"]
    assert document["next_check_at"] > START


def test_the_first_answer_after_failures_is_newer_than_nothing() -> None:
    failed = merge(None, failure(call(hours(1)))).document

    document = merge(failed, answer(call(), on_its_way(FIRST))).document

    assert (document["tag"], document["tracked_count"]) == ("InTransit", 1)
    assert [each["outcome"] for each in document["attempts"]] == ["answered", "courier_down"]


def test_a_failure_touches_neither_checkpoints_nor_tag_nor_plan() -> None:
    old = stored()

    new = merge(old, failure(call(hours(1)))).document

    assert new == old | {"attempts": new["attempts"]}
    assert [each["outcome"] for each in new["attempts"]] == ["answered", "courier_down"]


def test_a_final_failure_is_shown_and_the_next_check_is_planned_anew() -> None:
    new = merge(stored(), failure(call(hours(9)), CourierDown("no route"), final=True)).document

    assert new["error"] == {
        "code": "courier_down",
        "message": "no route",
        "at": START + hours(9) + dt.timedelta(seconds=1),
    }
    assert new["active"]
    assert new["next_check_at"] > START + hours(9)


def test_an_invalid_number_is_checked_no_more() -> None:
    new = merge(None, failure(call(), InvalidNumber("not ours"), final=True)).document

    assert (new["error"]["code"], new["active"], new["next_check_at"]) == (
        "invalid_number",
        False,
        None,
    )


def test_the_next_good_answer_clears_the_error() -> None:
    failed = merge(stored(), failure(call(hours(1)), InvalidNumber("?"), final=True)).document

    new = merge(failed, answer(call(hours(2)), on_its_way(FIRST, SECOND))).document

    assert (new["error"], new["active"]) == (None, True)


def test_a_failure_that_a_newer_answer_has_overtaken_is_noted_but_not_shown() -> None:
    old = stored(after=hours(2))

    new = merge(old, failure(call(hours(1)), final=True)).document

    assert new["error"] is None
    assert len(new["attempts"]) == 2


def test_a_repeated_failure_changes_nothing() -> None:
    once = merge(stored(), failure(call(hours(1)), final=True)).document

    assert merge(once, failure(call(hours(1)), final=True)).document == once


def test_a_failure_noted_before_can_become_final() -> None:
    noted = merge(None, failure(call())).document

    final = merge(noted, failure(call(), final=True)).document

    assert final["error"]["code"] == "courier_down"
    assert len(final["attempts"]) == 1


def test_the_last_ten_attempts_are_kept_oldest_first() -> None:
    document = None
    for hour in range(12):
        document = merge(document, failure(call(hours(hour)))).document

    assert document is not None
    kept = [each["at"] for each in document["attempts"]]
    assert kept == [START + hours(hour) + dt.timedelta(seconds=1) for hour in range(2, 12)]


def test_excerpts_are_cut_and_always_storable() -> None:
    noted = attempt(call(), excerpt="\ud800" + "é" * 2000)

    excerpt = merge(None, Answer(call(), JOURNEY, noted)).document["attempts"][0]["excerpt"]

    assert excerpt == "?" + "é" * 511
