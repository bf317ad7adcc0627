"""The merge of an answer into the stored document: its content, its fields, its end."""

from __future__ import annotations

import datetime as dt

import pytest
from store_parcels import (
    FIRST,
    JOURNEY,
    NAME,
    NUMBER,
    SECOND,
    START,
    THIRD,
    answer,
    call,
    days,
    delivered,
    failure,
    hours,
    on_its_way,
    scan,
    stored,
    times,
)

from service.config.schema import Recheck
from service.worker.results.document import LASTING
from service.worker.results.merge import in_order, merge
from service.worker.results.recheck_policy import read_pace
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.errors import MissingField
from tracking.request import Origin

LATE = scan("2026-04-20T10:00:00", "Accepted", city="SEATTLE")
OLD = {"tracking_postal_code": "10115", "tracking_key": "k"}
NEW = {"tracking_postal_code": "20095", "tracking_state": "HH"}

DETAILS = {
    "signed_by": "J DOE",
    "proof_of_delivery": "https://proof.example/7",
    "weight_grams": 454,
    "service": "Ground",
    "reference": "Order 7",
    "sub_parcels": ["B", "C"],
}


def test_the_first_answer_becomes_the_document_of_the_contract() -> None:
    utc = dt.datetime(2026, 2, 27, 13, 0, tzinfo=dt.UTC)
    first = scan(
        "2026-02-27T08:00:00", "Accepted", checkpoint_offset="-05:00", checkpoint_utc=utc,
        country_iso3="USA", city="MIAMI", state="FL", postal_code="33101", location="MIAMI, FL",
        raw_tag="03",
    )  # fmt: skip
    tracking = on_its_way(
        first, expected_delivery="2026-03-04", signed_by="J DOE", origin="USA", service="Ground",
        weight_grams=454, reference="Order 7", sub_parcels=("B", "C"),
        proof_of_delivery="https://proof.example/7",
    )  # fmt: skip

    document = merge(None, answer(call(), tracking)).document

    next_check_at = document.pop("next_check_at")
    assert abs(next_check_at - START - hours(4)) <= hours(0.4)
    pace = read_pace(document.pop("check_pace"))
    assert (pace.first, pace.put) == (False, False)
    assert 0 <= (next_check_at - START).total_seconds() - pace.seconds <= hours(0.4).total_seconds()
    assert document == {
        "_id": NAME,
        "slug": "usps",
        "tracking_number": NUMBER,
        "fields": {},
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
                "recorded_at": START,
            }
        ],
        "expected_delivery": "2026-03-04",
        "delivered_at": None,
        "delivered_at_utc": None,
        "signed_by": "J DOE",
        "origin": "USA",
        "destination": None,
        "proof_of_delivery": "https://proof.example/7",
        "weight_grams": 454,
        "service": "Ground",
        "reference": "Order 7",
        "sub_parcels": ["B", "C"],
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


def test_no_member_of_a_checkpoint_is_left_out() -> None:
    distinct = Checkpoint(*(f"{name}!" for name in Checkpoint._fields))  # type: ignore[arg-type]
    distinct = distinct._replace(checkpoint_utc=START)

    (kept,) = merge(None, answer(call(), on_its_way(distinct))).document["checkpoints"]

    assert kept.pop("recorded_at") == START
    assert tuple(kept.items()) == tuple(distinct._asdict().items())


def test_an_equal_observation_changes_nothing() -> None:
    old = stored()

    assert merge(old, answer(call(), delivered(THIRD))).document is old


def test_an_older_observation_changes_nothing() -> None:
    old = stored(after=hours(2))

    assert merge(old, answer(call(hours(1)), delivered(THIRD))).document is old


def test_an_observation_of_a_time_that_is_to_come_is_of_another_clock_and_no_newer_one() -> None:
    now = call(hours(1))
    ahead = stored(after=hours(2))

    ordered = in_order(ahead, answer(now, delivered(THIRD)), now.granted_us)

    assert merge(ordered, answer(now, delivered(THIRD))).document["tag"] == "Delivered"
    assert ahead["observed_us"] == call(hours(2)).granted_us


@pytest.mark.parametrize(("granted", "now"), [(1, 2), (1, 0)])
def test_observations_of_one_clock_stay_in_order(granted: int, now: int) -> None:
    """Also of a clock that is an hour ahead of this machine's."""
    old = stored(after=hours(2))

    write = answer(call(hours(granted)), delivered(THIRD))

    assert in_order(old, write, call(hours(now)).granted_us) is old


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


@pytest.mark.parametrize(
    "poorer",
    [delivered(FIRST, SECOND, THIRD), delivered(), delivered(THIRD)],
    ids=["no name", "no scans", "fewer scans"],
)
def test_an_answer_that_tells_no_details_empties_none(poorer: Tracking) -> None:
    rich = {name: value for name, value in DETAILS.items() if name != "sub_parcels"}
    old = stored(delivered(FIRST, SECOND, THIRD, sub_parcels=("B", "C"), **rich))

    new = merge(old, answer(call(hours(1)), poorer)).document
    assert {name: new[name] for name in LASTING} == DETAILS
    assert new["updated_at"] == old["updated_at"]


def test_a_document_from_before_there_were_details_gets_them_without_being_news() -> None:
    old = stored(delivered(FIRST, SECOND, THIRD, signed_by="J DOE"))
    for name in set(LASTING) - {"signed_by"}:
        del old[name]

    new = merge(old, answer(call(hours(1)), delivered(FIRST, SECOND, THIRD))).document
    assert (new["signed_by"], new["weight_grams"], new["sub_parcels"]) == ("J DOE", None, [])
    assert new["updated_at"] == old["updated_at"]
    told = delivered(FIRST, SECOND, THIRD, weight_grams=454)
    assert merge(old, answer(call(hours(1)), told)).document["weight_grams"] == 454


def test_another_name_takes_the_place_of_the_first() -> None:
    old = stored(delivered(FIRST, THIRD, signed_by="J DOE"))

    named = delivered(FIRST, THIRD, signed_by="M ROE")
    assert merge(old, answer(call(hours(1)), named)).document["signed_by"] == "M ROE"


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


def test_the_fields_of_the_first_request_are_kept() -> None:
    assert merge(None, answer(call(**OLD), JOURNEY)).document["fields"] == OLD
    assert merge(None, failure(call(**OLD))).document["fields"] == OLD


def test_the_newest_fields_win_and_fill_gaps() -> None:
    old = merge(None, answer(call(**OLD), JOURNEY)).document

    answered = merge(old, answer(call(hours(1), **NEW), JOURNEY)).document
    failed = merge(old, failure(call(hours(1), **NEW))).document

    assert answered["fields"] == failed["fields"] == {**OLD, **NEW}


def test_a_request_without_fields_takes_none_away() -> None:
    old = merge(None, answer(call(**OLD), JOURNEY)).document

    assert merge(old, answer(call(hours(1)), JOURNEY)).document["fields"] == OLD


def test_new_fields_are_nothing_new_from_the_courier() -> None:
    old = stored()

    new = merge(old, answer(call(hours(1), **NEW), JOURNEY)).document

    assert new["updated_at"] == old["updated_at"]


def test_a_schedule_knows_what_was_stored_before_and_only_fills_gaps() -> None:
    old = merge(None, answer(call(**OLD), JOURNEY)).document
    recheck = call(hours(1), origin=Origin.AUTOMATIC, **NEW)

    for write in (answer(recheck, JOURNEY), failure(recheck)):
        assert merge(old, write).document["fields"] == {**NEW, **OLD}


def test_a_call_that_a_newer_answer_has_overtaken_only_fills_gaps() -> None:
    old = merge(None, answer(call(hours(2), **OLD), JOURNEY)).document

    new = merge(old, failure(call(hours(1), **NEW))).document

    assert new["fields"] == {**NEW, **OLD}


def test_a_field_that_was_missing_is_there_for_the_next_check() -> None:
    old = merge(None, failure(call(), MissingField("a postal code"), final=True)).document

    new = merge(old, answer(call(hours(1), **NEW), JOURNEY)).document

    assert new["fields"] == NEW


def test_a_document_of_before_gets_its_fields_with_the_next_answer() -> None:
    old = stored()
    del old["fields"]

    assert merge(old, answer(call(hours(1), **NEW), JOURNEY)).document["fields"] == NEW
    assert merge(old, failure(call(hours(1), **NEW))).document["fields"] == NEW


def test_a_number_that_is_used_again_takes_no_fields_over_but_what_it_was_asked_with() -> None:
    old = merge(None, answer(call(**OLD), delivered(scan("2026-02-27T08:00:00")))).document
    begun = answer(call(days(90), **NEW), delivered(scan("2026-05-29T08:00:00")))

    merged = merge(old, begun)

    assert merged.document["fields"] == NEW
    assert [each["fields"] for each in merged.past] == [OLD]
