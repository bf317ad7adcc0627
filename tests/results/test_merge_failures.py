"""What a failed call makes of the stored document."""

from __future__ import annotations

import datetime as dt

from store_parcels import (
    FIRST,
    JOURNEY,
    SECOND,
    START,
    answer,
    attempt,
    call,
    days,
    failure,
    hours,
    on_its_way,
    stored,
)

from service.config.schema import Recheck
from service.worker.results.document import Answer
from service.worker.results.merge import merge
from tracking.errors import CourierDown, InvalidNumber, WorkersVanished


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


def test_a_final_failure_is_shown_and_the_next_check_is_planned_again() -> None:
    new = merge(stored(), failure(call(hours(9)), CourierDown("no route"), final=True)).document

    assert new["error"] == {
        "code": "courier_down",
        "message": "no route",
        "at": START + hours(9) + dt.timedelta(seconds=1),
    }
    assert new["active"]
    assert new["next_check_at"] > START + hours(9)


def test_thirty_days_without_an_answer_mean_expired() -> None:
    old = merge(stored(), answer(call(days(20)), JOURNEY)).document

    soon = merge(old, failure(call(days(49)), final=True)).document
    late = merge(old, failure(call(days(50)), final=True)).document

    assert (soon["tag"], soon["active"], soon["next_check_at"] is None) == (
        "InTransit",
        True,
        False,
    )
    assert (late["tag"], late["subtag"], late["active"]) == ("Expired", "Expired_001", False)
    assert (late["next_check_at"], late["updated_at"]) == (None, START + days(50))
    assert late["checkpoints"] == old["checkpoints"]
    assert late["error"]["code"] == "courier_down"


def test_a_number_that_was_never_answered_expires_after_the_days_of_its_courier() -> None:
    week = Recheck(expires_after_days=7)
    document = merge(None, failure(call(), final=True), week).document

    soon = merge(document, failure(call(days(6)), final=True), week).document
    late = merge(document, failure(call(days(7)), final=True), week).document

    assert (soon["tag"], soon["active"]) == ("Pending", True)
    assert (late["tag"], late["active"], late["next_check_at"]) == ("Expired", False, None)


def test_a_failure_that_will_be_tried_again_ends_nothing() -> None:
    late = merge(stored(), failure(call(days(50)))).document

    assert (late["tag"], late["active"]) == ("InTransit", True)


def test_what_ended_without_an_answer_is_not_ended_once_more_by_the_next_failure() -> None:
    late = merge(stored(), failure(call(days(50)), final=True)).document

    again = merge(late, failure(call(days(51)), final=True)).document

    assert again["updated_at"] == START + days(50)


def test_an_invalid_number_is_checked_no_more() -> None:
    new = merge(None, failure(call(), InvalidNumber("not ours"), final=True)).document

    assert (new["error"]["code"], new["active"], new["next_check_at"]) == (
        "invalid_number",
        False,
        None,
    )


def test_a_number_that_killed_its_workers_is_checked_again_once_it_was_answered() -> None:
    died = merge(stored(), failure(call(hours(9)), WorkersVanished(11), final=True)).document
    noted = merge(died, failure(call(hours(10)))).document
    answered = merge(noted, answer(call(hours(11)), on_its_way(FIRST))).document

    assert (died["error"]["code"], died["active"]) == ("workers_vanished", True)
    assert (died["next_check_at"], noted["next_check_at"]) == (None, None)
    assert answered["next_check_at"] > START + hours(11)


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


def test_a_number_that_turns_out_impossible_ends_then() -> None:
    """Its last change may be long ago: counted from there, it would go before anybody saw why."""
    refused = failure(call(days(40)), InvalidNumber("not ours"), final=True)

    document = merge(stored(), refused).document

    assert (document["active"], document["updated_at"]) == (False, START + days(40))
    again = failure(call(days(41)), InvalidNumber("not ours"), final=True)
    assert merge(document, again).document["updated_at"] == START + days(40)


def test_another_failure_is_no_change_of_the_parcel() -> None:
    down = failure(call(hours(9)), CourierDown("?"), final=True)

    assert merge(stored(), down).document["updated_at"] == START
