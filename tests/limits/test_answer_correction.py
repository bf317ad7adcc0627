"""A late answer says that its request may have arrived late: its start then counts as later."""

from __future__ import annotations

import asyncio

import pytest
from limits_bench import USPS, Hire, Worker, sent
from redis.asyncio import Redis

from limits.correction import IGNORED_SECONDS, MINUTE, Correction
from limits.keys import of_slug
from limits.rules import Rules
from tracking.request import Slug

CORRECTED = Rules(per_second=100, correction_ms=100)


def correction(most: float = 0.1, quickest: float | None = 0.2, at: float = 1000.0) -> Correction:
    judged = Correction(most)
    if quickest is not None:
        assert judged.of(at - quickest, at) == 0.0
    return judged


@pytest.mark.parametrize(
    ("took", "late"),
    [
        (0.15, 0.0),
        (0.2, 0.0),
        (0.2 + IGNORED_SECONDS - 0.001, 0.0),
        (0.2 + IGNORED_SECONDS + 0.001, IGNORED_SECONDS + 0.001),
        (0.26, 0.06),
        (5.0, 0.1),
    ],
    ids=["quicker", "as quick", "its own unevenness", "more than that", "late", "the most"],
)
def test_what_an_answer_took_longer_than_the_quickest_counts(took: float, late: float) -> None:
    assert correction().of(1001.0, 1001.0 + took) == pytest.approx(late)


def test_the_first_answer_of_all_is_no_later_than_itself() -> None:
    assert correction(quickest=None).of(1000.0, 1009.0) == 0.0


def test_the_quickest_is_remembered_for_a_minute_at_least() -> None:
    judged = correction(at=1000.0)

    after = 1000.0 + MINUTE + 1
    assert judged.of(after - 0.25, after) == pytest.approx(0.05)


@pytest.mark.parametrize("steps", [1, 30])
def test_a_courier_that_got_slower_for_good_is_late_for_two_minutes_at_most(steps: int) -> None:
    judged = correction(at=1000.0)
    for step in range(1, steps + 1):
        now = 1000.0 + step * 2 * MINUTE / steps
        judged.of(now - 0.25, now)

    later = 1000.0 + 2 * MINUTE + 1
    assert judged.of(later - 0.25, later) == 0.0


async def lane_moves(
    worker: Worker, redis: Redis, answer_seconds: float, slug: Slug = USPS
) -> float:
    """Seconds by which the answer of one call moves the end of the lane that its send took."""
    call = await sent(await worker.granted(f"N{answer_seconds}", slug=slug))
    starts = of_slug(slug).call_starts
    await worker.limiter.take(slug, 0)
    by_send = await redis.zscore(starts, call.id)
    await asyncio.sleep(answer_seconds)
    call.permit.after_answer()
    await worker.limiter.take(slug, 0)
    return float((await redis.zscore(starts, call.id)) - by_send) / 1e6


async def test_a_lane_is_held_for_as_long_as_its_request_may_have_been_late(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(CORRECTED)

    assert await lane_moves(worker, redis, 0.0) == 0.0
    assert 0.04 < await lane_moves(worker, redis, 0.05) < 0.1
    assert await lane_moves(worker, redis, 0.2) == pytest.approx(0.1, abs=1e-3)


async def test_without_the_setting_an_answer_moves_no_lane(worker: Worker, redis: Redis) -> None:
    assert await lane_moves(worker, redis, 0.0) == 0.0
    assert await lane_moves(worker, redis, 0.05) == 0.0


async def test_couriers_are_judged_by_their_own_answers(hire: Hire, redis: Redis) -> None:
    worker = await hire(CORRECTED)

    assert await lane_moves(worker, redis, 0.0) == 0.0
    assert await lane_moves(worker, redis, 0.05, Slug("dpd-uk")) == 0.0


async def test_an_answer_to_a_request_that_was_not_stamped_corrects_nothing(
    hire: Hire, redis: Redis
) -> None:
    """The pessimistic lane of an unknown send is later than any correction."""
    worker = await hire(CORRECTED)
    await lane_moves(worker, redis, 0.0)
    call = await worker.granted()
    await call.permit.before_send()
    held = await redis.zscore(of_slug(USPS).call_starts, call.id)
    await asyncio.sleep(0.05)

    call.permit.after_answer()
    await worker.take(0)

    assert await redis.zscore(of_slug(USPS).call_starts, call.id) == held
