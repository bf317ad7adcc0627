"""What a courier was asked with besides the number is kept, so that re-checks ask with it."""

from __future__ import annotations

from store_parcels import JOURNEY, answer, call, days, delivered, failure, hours, scan, stored

from service.results.merge import merge
from tracking.errors import MissingField
from tracking.request import Origin

OLD = {"tracking_postal_code": "10115", "tracking_key": "k"}
NEW = {"tracking_postal_code": "20095", "tracking_state": "HH"}


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
