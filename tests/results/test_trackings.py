"""Answers and failures on a real mongod, and stored answers that are fresh enough."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from mongo_questions import Asked
from pymongo import monitoring
from store_parcels import (
    FIRST,
    NAME,
    START,
    answered,
    attempt,
    call,
    days,
    delivered,
    found,
    hours,
    on_its_way,
    scan,
)
from store_parcels import scan as scanned

from service.config.schema import Recheck
from service.worker.results import connection
from service.worker.results.connection import Store
from service.worker.results.trackings import Trackings
from tracking.call import Call, Verdict
from tracking.checkpoint import NOT_FOUND_YET, Tracking, output_of
from tracking.errors import CourierDown, UnreadableAnswer, UnstorableAnswer
from tracking.operation import State
from tracking.request import Origin

ARRIVED = delivered(scan("2026-02-27T08:00:00"), scan("2026-02-28T08:00:00"))

SECOND = scanned("2026-02-28T09:30:00", "Departed")
LATE = scanned("2026-06-20T10:00:00", "Accepted")


async def save(trackings: Trackings, after_hours: float = 0, *scans: Any) -> None:
    await answered(trackings, call(hours(after_hours)), on_its_way(*scans or (FIRST,)))


async def test_an_answer_is_stored_as_it_was_merged(store: Store, trackings: Trackings) -> None:
    await save(trackings)

    document = found(store)

    assert (document["tag"], document["tracked_count"]) == ("InTransit", 1)
    assert document["created_at"] == document["last_checked_at"] == START
    assert [each["message"] for each in document["checkpoints"]] == ["Accepted"]


async def test_checks_that_were_ended_begin_again_with_the_next_answer(
    store: Store, trackings: Trackings
) -> None:
    await save(trackings)

    await trackings.end_checks(call().request)
    ended = found(store)["next_check_at"]
    await save(trackings, 1)

    assert ended is None
    assert found(store)["next_check_at"] > START + hours(1)


async def test_an_exact_repeat_changes_nothing(store: Store, trackings: Trackings) -> None:
    await save(trackings)
    before = found(store)

    await save(trackings)

    assert found(store) == before


async def test_instants_finer_than_mongodbs_are_no_change(
    store: Store, trackings: Trackings
) -> None:
    fine = scanned("2026-02-27T08:00:00", checkpoint_utc=START.replace(microsecond=123_456))

    await save(trackings, 0, fine)
    await save(trackings, 1, fine)

    document = found(store)
    assert (document["tracked_count"], document["updated_at"]) == (2, START)


async def test_a_newer_answer_replaces_an_older_one_and_never_the_reverse(
    store: Store, trackings: Trackings
) -> None:
    await save(trackings, 0, FIRST)
    await save(trackings, 2, FIRST, SECOND)
    await save(trackings, 1, FIRST)

    document = found(store)

    assert len(document["checkpoints"]) == 2
    assert document["last_checked_at"] == START + hours(2)
    assert document["tracked_count"] == 2


async def test_answers_about_one_number_in_one_batch_are_merged_in_order(
    store: Store, trackings: Trackings
) -> None:
    await asyncio.gather(*(save(trackings, hour) for hour in range(5)))

    document = found(store)

    assert document["tracked_count"] == 5
    assert len(document["attempts"]) == 5
    assert document["last_checked_at"] == START + hours(4)


async def test_new_and_known_parcels_are_stored_together(
    store: Store, trackings: Trackings
) -> None:
    await save(trackings)
    calls = [call(hours(1), f"NUMBER{index}") for index in range(100)] + [call(hours(1))]

    await asyncio.gather(
        *(trackings.save(of, delivered(FIRST, SECOND), attempt(of)) for of in calls)
    )

    assert store.tracking.count_documents({"tag": "Delivered"}) == 101
    assert found(store)["tracked_count"] == 2


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of clients that are made later; of the looks for forgotten parcels the first."""
    monkeypatch.setattr(connection, "MARKS_LOOK_SECONDS", 3_600.0)
    listener = Asked()
    monitoring.register(listener)
    return listener.names


async def test_a_hundred_new_answers_cost_one_command(
    commands: list[str], trackings: Trackings
) -> None:
    await save(trackings)
    commands.clear()
    calls = [call(number=f"NUMBER{index}") for index in range(100)]

    await asyncio.gather(*(trackings.save(of, delivered(FIRST), attempt(of)) for of in calls))

    assert [name for name in commands if name not in {"hello", "ismaster"}] == ["insert"]


async def test_rechecks_are_read_first_because_they_have_a_document(
    commands: list[str], store: Store, trackings: Trackings
) -> None:
    await save(trackings)
    commands.clear()
    again = call(hours(4), origin=Origin.AUTOMATIC)

    await answered(trackings, again, delivered(FIRST, SECOND))

    assert commands == ["find", "update"]
    assert found(store)["tag"] == "Delivered"


async def test_a_number_that_is_used_again_leaves_the_old_parcel_in_the_past(
    store: Store, trackings: Trackings
) -> None:
    await answered(trackings, call(), delivered(FIRST, SECOND))
    old = found(store)
    later = call(days(120))

    await answered(trackings, later, on_its_way(LATE))
    await answered(trackings, later, on_its_way(LATE))

    past = list(store.past.find())
    assert past == [old | {"_id": f"{NAME}:{FIRST.checkpoint_time}"}]
    assert found(store)["tracked_count"] == 1


async def test_each_courier_has_its_own_times_of_re_checks(store: Store) -> None:
    daily = {"usps": Recheck(in_transit_hours=24.0), "ups": Recheck()}
    trackings = Trackings(store, daily.__getitem__)

    await save(trackings)

    due = found(store)["next_check_at"]
    assert hours(24 * 0.9) <= due - START <= hours(24 * 1.1)


async def test_a_failure_is_noted_and_a_final_one_is_shown(
    store: Store, trackings: Trackings
) -> None:
    error = CourierDown("502 Bad Gateway")
    first, last = call(), call(hours(1))

    await trackings.fail(first, error, attempt(first, error.code), final=False)
    await trackings.fail(last, error, attempt(last, error.code), final=True)
    await trackings.fail(last, error, attempt(last, error.code), final=True)

    document = found(store)
    assert (document["tag"], document["error"]["code"]) == ("Pending", "courier_down")
    assert [each["outcome"] for each in document["attempts"]] == ["courier_down"] * 2


@pytest.mark.parametrize(
    "bad",
    [
        scanned("2026-02-27T08:00:00", "\ud800"),
        scanned("2026-02-27T08:00:00", "x" * 17 * 1024 * 1024),
        scanned("2026-02-27T08:00:00", "ok", raw_tag=2**63),
    ],
    ids=["no UTF-8", "too long", "too large an integer"],
)
async def test_an_answer_that_cannot_be_stored_is_refused_alone(
    store: Store, trackings: Trackings, bad: Any
) -> None:
    calls = [call(number=f"NUMBER{index}") for index in range(20)]
    trackings_of = [on_its_way(bad if index == 7 else FIRST) for index in range(20)]

    results = await asyncio.gather(
        *(
            trackings.save(of, tracking, attempt(of))
            for of, tracking in zip(calls, trackings_of, strict=True)
        ),
        return_exceptions=True,
    )

    assert [index for index, each in enumerate(results) if each is not None] == [7]
    assert isinstance(results[7], UnreadableAnswer)
    assert store.tracking.count_documents({}) == 19


async def test_the_answers_of_a_group_are_stored_in_one_go_but_for_the_one_that_cannot_be(
    commands: list[str], store: Store, trackings: Trackings
) -> None:
    await save(trackings)
    commands.clear()
    calls = [call(number=f"NUMBER{index}") for index in range(30)]
    bad = on_its_way(scanned("2026-02-27", "\ud800"))
    answers = [(of, bad if of is calls[7] else delivered(FIRST), attempt(of)) for of in calls]

    errors = await trackings.save_all(answers)

    assert [index for index, each in enumerate(errors) if each is not None] == [7]
    assert isinstance(errors[7], UnstorableAnswer)
    assert [name for name in commands if name not in {"hello", "ismaster"}] == ["insert"]
    assert store.tracking.count_documents({}) == 30


async def test_only_the_bad_one_of_two_answers_about_a_number_is_refused(
    store: Store, trackings: Trackings
) -> None:
    bad, good = call(hours(1)), call(hours(2))

    results = await asyncio.gather(
        trackings.save(bad, on_its_way(scanned("2026-02-27", "\ud800")), attempt(bad)),
        trackings.save(good, on_its_way(FIRST), attempt(good)),
        return_exceptions=True,
    )

    assert [type(each) for each in results] == [UnstorableAnswer, type(None)]
    assert found(store)["tracked_count"] == 1


@pytest.mark.parametrize("foreign", [{}, {"observed_us": 0, "revision": 0, "checkpoints": None}])
async def test_a_document_that_no_worker_wrote_stops_only_its_own_number(
    store: Store, trackings: Trackings, foreign: dict[str, Any]
) -> None:
    store.tracking.insert_one({"_id": NAME} | foreign)
    other = call(number="OTHER1")

    results = await asyncio.gather(
        save(trackings),
        trackings.save(other, on_its_way(FIRST), attempt(other)),
        return_exceptions=True,
    )
    failed = call(hours(1))
    await trackings.fail(failed, CourierDown("?"), attempt(failed), final=True)

    assert [type(each) for each in results] == [UnstorableAnswer, type(None)]
    assert found(store) == {"_id": NAME} | foreign


async def test_an_empty_answer_is_a_pending_document(store: Store, trackings: Trackings) -> None:
    of = call()

    await trackings.save(of, NOT_FOUND_YET, attempt(of, "not_found"))

    document = found(store)
    assert (document["tag"], document["checkpoints"], document["active"]) == ("Pending", [], True)


def call_of(seconds_ago: float) -> Call:
    return call()._replace(granted_us=round((time.time() - seconds_ago) * 1_000_000))


async def stored(trackings: Trackings, seconds_ago: float, answer: Tracking = ARRIVED) -> Call:
    of = call_of(seconds_ago)
    await answered(trackings, of, answer)
    return of


async def test_an_answer_that_is_young_enough_is_the_verdict(trackings: Trackings) -> None:
    of = await stored(trackings, 20)

    assert await trackings.fresh(of.request, 30) == Verdict(
        State.SUCCESS, output_of(ARRIVED), observed_ms=of.granted_us // 1000
    )


async def test_an_answer_that_is_too_old_is_none(trackings: Trackings) -> None:
    of = await stored(trackings, 40)

    assert await trackings.fresh(of.request, 30) is None


async def test_nothing_stored_is_no_answer(trackings: Trackings) -> None:
    assert await trackings.fresh(call().request, 1e9) is None


async def test_zero_always_asks_the_courier(trackings: Trackings) -> None:
    of = await stored(trackings, -1)

    assert await trackings.fresh(of.request, 0) is None


async def test_an_answer_from_the_future_has_no_age(trackings: Trackings) -> None:
    of = await stored(trackings, -3600)

    assert await trackings.fresh(of.request, 1e9) is None


async def test_a_failure_after_the_answer_makes_it_stale(trackings: Trackings) -> None:
    of = await stored(trackings, 20)
    later = call_of(10)
    await trackings.fail(later, CourierDown("?"), attempt(later), final=True)

    assert await trackings.fresh(of.request, 30) is None


async def test_a_field_that_the_courier_was_not_asked_with_makes_an_answer_stale(
    trackings: Trackings,
) -> None:
    of = call_of(20)
    mistyped = of.request._replace(fields={"tracking_postal_code": "99999"})
    corrected = of.request._replace(fields={"tracking_postal_code": "10115"})
    of = of._replace(request=mistyped)
    await answered(trackings, of, ARRIVED)

    assert await trackings.fresh(corrected, 30) is None
    assert await trackings.fresh(mistyped, 30) is not None
    assert await trackings.fresh(of.request._replace(fields={}), 30) is not None
    re_check = corrected._replace(origin=Origin.AUTOMATIC)
    assert await trackings.fresh(re_check, 30) is not None


async def test_a_document_made_by_a_failure_holds_no_answer(
    store: Store, trackings: Trackings
) -> None:
    of = call_of(0)
    await trackings.fail(of, CourierDown("?"), attempt(of), final=False)

    assert await trackings.fresh(of.request, time.time() - START.timestamp()) is None
    assert store.tracking.count_documents({}) == 1
