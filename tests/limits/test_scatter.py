"""The guard of a line follows how its courier's answers scatter, between the two that are set."""

from __future__ import annotations

import random

import pytest
from limits_bench import KEYS, USPS, Hire, a_millisecond_goes_by, redis_us
from redis.asyncio import Redis

from limits.admin.view import View
from limits.limiter import Policy
from limits.rules import FEWEST, LAST, RuleBook, Rules
from limits.workers import WorkerInfo
from tracking.line import Line

SET = Rules(guard_ms=20, guard_most_ms=100)
OTHER = Line("dpd-uk")


def measured(*answers: float, rules: Rules = SET) -> RuleBook:
    """Of a line whose answers took so many seconds, one after the other."""
    book = RuleBook(lambda _: rules)
    book.guarded(USPS)
    for seconds in answers:
        book.note(USPS, seconds)
    return book


def evenly(most: float, count: int = LAST, least: float = 0.2) -> list[float]:
    chance = random.Random(1)
    return [least + chance.random() * most for _ in range(count)]


def guard(book: RuleBook) -> int:
    return book.guarded(USPS).guard_ms


def test_what_is_not_measured_yet_has_the_widest_guard() -> None:
    assert guard(measured()) == 100
    assert guard(measured(*[0.2] * (FEWEST - 1))) == 100


@pytest.mark.parametrize("scatter_seconds", [0.0, 0.005, 0.019])
def test_a_scatter_within_the_guard_that_is_set_widens_nothing(scatter_seconds: float) -> None:
    book = measured(*[0.2, 0.2 + scatter_seconds] * 64)

    assert book.guarded(USPS) is SET
    assert book.fits() == {}


@pytest.mark.parametrize("count", [FEWEST, 16, 32, LAST, 3 * LAST])
def test_a_scatter_beyond_the_guard_is_covered_with_the_guard_beside_it(count: int) -> None:
    book = measured(*evenly(0.06, count))

    assert 60 < guard(book) <= 100
    assert guard(measured(*evenly(0.06))) == pytest.approx(80, abs=5)


def test_few_answers_that_happen_to_be_alike_hardly_ever_make_a_wide_scatter_look_narrow() -> None:
    chance = random.Random(1)
    firsts = [[0.2 + chance.random() * 0.06 for _ in range(FEWEST)] for _ in range(2_000)]

    assert sum(guard(measured(*answers)) == SET.guard_ms for answers in firsts) <= 4


def test_the_guard_is_never_wider_than_it_may_be_and_what_would_fit_is_said() -> None:
    book = measured(*evenly(0.5))

    assert guard(book) == 100
    assert book.fits()[USPS] == pytest.approx(520, abs=20)


def test_a_few_slow_answers_among_many_widen_nothing() -> None:
    book = measured(*([0.2] * 62 + [3.0]) * 3)

    assert guard(book) == 20


def test_a_scatter_that_is_over_is_forgotten() -> None:
    book = measured(*evenly(0.06), *[0.2] * LAST)

    assert guard(book) == 20


def test_each_line_has_the_guard_of_its_own_courier() -> None:
    book = measured(*evenly(0.06))
    for _ in range(LAST):
        book.note(OTHER, 0.1)

    assert (guard(book) > 60, book.guarded(OTHER).guard_ms) == (True, 20)


@pytest.mark.parametrize("most", [0, 20])
def test_where_it_may_not_be_wider_the_guard_is_what_is_set(most: int) -> None:
    rules = Rules(guard_ms=20, guard_most_ms=most)

    assert measured(rules=rules).guarded(USPS) is rules
    assert measured(*evenly(0.5), rules=rules).guarded(USPS) is rules


async def test_a_send_holds_its_lane_for_the_guard_that_was_measured(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(SET)
    call = await worker.granted("N001")
    await call.permit.before_send()
    call.permit.after_send()
    for seconds in evenly(0.06):
        worker.limiter._book.note(USPS, seconds)  # noqa: SLF001 - as permits do
    sent = await redis_us(redis)

    await worker.finish(call)

    lane = await redis.zscore(KEYS.call_starts, call.id)
    assert lane
    assert 1_060_000 < lane - sent <= 1_100_000


async def test_a_lane_of_a_wider_guard_is_not_taken_for_one_of_a_clock_that_stepped_back(
    hire: Hire, redis: Redis
) -> None:
    rules = Rules(guard_ms=20, guard_most_ms=5_000)
    wide, narrow = await hire(rules), await hire(rules)
    for _ in range(LAST):
        narrow.limiter._book.note(USPS, 0.1)  # noqa: SLF001 - as permits do
    call = await wide.granted("N001")
    before = await redis.zscore(KEYS.call_starts, call.id)

    await narrow.raw("sweep", "s")
    await narrow.granted("N002")

    assert await redis.zscore(KEYS.call_starts, call.id) == before


async def test_workers_tell_what_guard_fits(hire: Hire, redis: Redis) -> None:
    worker = await hire(SET, Policy(who=WorkerInfo("here", 1, "1", 0.0)))
    for seconds in evenly(0.5):
        worker.limiter._book.note(USPS, seconds)  # noqa: SLF001 - as permits do
    await a_millisecond_goes_by(redis)

    await worker.limiter.sweep([USPS])

    (told,) = await View(redis, lambda _: SET).workers()
    assert told.guards[USPS] == pytest.approx(520, abs=20)


async def test_an_answer_is_timed_from_its_send_to_its_arrival(hire: Hire) -> None:
    worker = await hire(SET)
    heard: list[float] = []
    worker.limiter._book.note = lambda _, seconds: heard.append(seconds)  # type: ignore[method-assign]  # noqa: SLF001 - as it hears
    call = await worker.granted("N001")
    await call.permit.before_send()
    call.permit.after_send()

    call.permit.answered(0.0)
    call.permit.answered(0.0)

    (seconds,) = heard
    assert 0 <= seconds < 5
