"""A stored answer for somebody who does not need a new one."""

from __future__ import annotations

import time

from store_parcels import START, attempt, call, delivered, scan

from service.results.connection import Store
from service.results.trackings import Trackings
from tracking.call import Call, Verdict
from tracking.checkpoint import Tracking
from tracking.errors import CourierDown
from tracking.operation import State
from tracking.request import Origin
from tracking.summary import output_of

ARRIVED = delivered(scan("2026-02-27T08:00:00"), scan("2026-02-28T08:00:00"))


def call_of(seconds_ago: float) -> Call:
    return call()._replace(granted_us=round((time.time() - seconds_ago) * 1_000_000))


async def stored(trackings: Trackings, seconds_ago: float, answer: Tracking = ARRIVED) -> Call:
    of = call_of(seconds_ago)
    await trackings.save(of, answer, attempt(of))
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
    await trackings.save(of, ARRIVED, attempt(of))

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
