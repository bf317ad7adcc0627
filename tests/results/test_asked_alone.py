"""A number that answers for several leave out: what its document says, and when it is due again."""

from __future__ import annotations

import datetime as dt

from store_parcels import (
    FIRST,
    JOURNEY,
    SECOND,
    START,
    THIRD,
    answer,
    call,
    delivered,
    failure,
    hours,
    on_its_way,
)

from service.worker.results.merge import merge
from tracking.call import Call


def alone(after: dt.timedelta = dt.timedelta(0)) -> Call:
    """A call for a number that an answer for several left out."""
    return call(after)._replace(alone=True)


def test_a_number_that_answers_for_several_leave_out_says_so_and_is_checked_half_as_often() -> None:
    document = merge(None, answer(alone(), JOURNEY)).document

    assert document["asked_alone"] is True
    assert abs(document["next_check_at"] - START - hours(8)) <= hours(0.8)
    assert "asked_alone" not in merge(None, answer(call(), JOURNEY)).document


def test_a_number_that_is_asked_about_alone_stays_so_until_its_tag_changes() -> None:
    old = merge(None, answer(alone(), JOURNEY)).document

    same = merge(old, answer(call(hours(8)), on_its_way(FIRST, SECOND, THIRD))).document
    changed = merge(same, answer(alone(hours(16)), delivered(FIRST, SECOND, THIRD))).document

    assert same["asked_alone"] is True
    assert abs(same["next_check_at"] - START - hours(16)) <= hours(0.8)
    assert "asked_alone" not in changed


def test_a_failed_check_of_a_number_that_is_asked_about_alone_is_due_again_half_as_soon() -> None:
    old = merge(None, answer(alone(), JOURNEY)).document

    failed = merge(old, failure(alone(hours(8)), final=True)).document

    assert failed["asked_alone"] is True
    assert abs(failed["next_check_at"] - START - hours(16)) <= hours(0.8)
