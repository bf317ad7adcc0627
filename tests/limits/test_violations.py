"""Starts that broke a limit are counted, whatever lanes and leases say; others never."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress

import pytest
from limits_bench import ANSWERED, KEYS, USPS, Hire
from redis.asyncio import Redis
from watched_limits import judged, watched

from limits.admin.violations import EXEMPT_US, LAG_US, Entry, Violations, judging
from limits.rules import Rules
from service.observe.background import Background
from tracking.line import courier_line

LINE = courier_line(USPS)
RULES = Rules(per_second=2, concurrent=2, call_timeout_seconds=30.0)
SECOND = 1_000_000
NOW = 1_000_000 * SECOND
"""Of Redis' clock, in µs."""


async def test_a_deleted_lane_lets_too_many_start_and_each_is_counted(
    hire: Hire, redis: Redis
) -> None:
    rules = Rules(per_second=2)
    worker = await hire(rules)
    violations = await watched(redis, rules)

    for n in range(4):
        call = await worker.granted(f"N{n:03}")
        await call.permit.before_send()
        call.permit.after_send()
        await worker.finish(call, ANSWERED)
        await redis.delete(KEYS.call_starts)

    assert await judged(redis, violations) == {(LINE, "rate"): 2, (LINE, "concurrency"): 0}


async def test_deleted_leases_let_too_many_run_and_each_is_counted(
    hire: Hire, redis: Redis
) -> None:
    rules = Rules(per_second=100, concurrent=1)
    worker = await hire(rules)
    violations = await watched(redis, rules)
    calls = []

    for n in range(3):
        calls.append(call := await worker.granted(f"N{n:03}"))
        await call.permit.before_send()
        call.permit.after_send()
        await redis.delete(KEYS.calls_leases)
    for call in calls:
        await worker.finish(call, ANSWERED)

    assert await judged(redis, violations) == {(LINE, "rate"): 0, (LINE, "concurrency"): 2}


async def test_the_stream_holds_a_few_seconds_only(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(per_second=1_000))
    old = json.dumps(["old", 1])
    for n in range(400):
        await redis.xadd("tracking:measured", {"m": f"usps {old}"}, id=f"{n + 1}-0")

    await worker.finish(await worker.granted("N001"), ANSWERED)

    assert await redis.xlen("tracking:measured") <= 100 + 1


def sends(**at: float) -> Entry:
    """One script that reports sends, in seconds after NOW."""
    told = [part for name, when in at.items() for part in (name, round(NOW + when * SECOND))]
    last = max(at.values())
    return (round(NOW + last * SECOND) // 1000 + 300, f"usps {json.dumps(told).replace(' ', '')}")


def end(name: str, at: float) -> Entry:
    return round(NOW + at * SECOND) // 1000, f"usps {name}"


def counted(
    entries: Iterable[Entry], violations: Violations | None = None, at: float = 60.0
) -> tuple[int, int]:
    """How many starts broke the rate, and how many the concurrency."""
    if violations is None:
        violations = Violations(lambda _: RULES, exempt_us=0)
        violations.note(NOW, "epoch", [])
    violations.note(NOW + round(at * SECOND), "epoch", list(entries))
    return violations.counts[LINE, "rate"], violations.counts[LINE, "concurrency"]


@pytest.mark.parametrize(
    ("third", "broken"), [(0.99, 1), (0.999999, 1), (1.0, 0), (1.02, 0), (0.02, 1)]
)
def test_a_start_counts_that_is_one_too_many_in_some_second(third: float, broken: int) -> None:
    ends = [end(name, 0.015) for name in "ab"]

    assert counted([sends(a=0.0, b=0.01), *ends, sends(c=third)])[0] == (
        broken if third != 0 else 0
    )


def test_calls_that_end_make_room_in_the_moment_of_their_end() -> None:
    entries = [sends(a=0.0), sends(b=1.0), end("a", 2.0), sends(c=2.0)]

    assert counted(entries) == (0, 0)
    assert counted([sends(a=0.0), sends(b=1.0), end("a", 2.1), sends(c=2.0)]) == (0, 1)


def test_further_requests_of_a_call_take_starts_but_no_slot() -> None:
    entries = [sends(a=0.0, b=0.1), sends(**{"a#2": 1.2, "a#3": 1.3, "b#2": 2.4})]

    assert counted(entries) == (0, 0)
    assert counted([sends(**{"a": 0.0, "a#2": 0.1, "a#3": 0.2})]) == (1, 0)


def test_a_call_whose_end_nobody_reports_counts_for_its_time_out() -> None:
    entries = [sends(a=0.0, b=0.1), sends(c=29.0), sends(d=30.5)]

    assert counted(entries) == (0, 1)


def test_what_is_reported_twice_or_before_its_send_counts_once() -> None:
    violations = Violations(lambda _: RULES, exempt_us=0)
    violations.note(NOW, "epoch", [])
    again = sends(a=0.0, b=0.1)

    entries = [again, again, end("a", 0.05), end("b", 0.0999), sends(c=1.5)]
    assert counted(entries, violations, at=3.5) == (0, 0)
    assert counted([again, sends(d=2.6)], violations, at=5.5) == (0, 0)


def test_what_is_younger_than_reports_travel_is_judged_later() -> None:
    violations = Violations(lambda _: RULES, exempt_us=0)
    violations.note(NOW, "epoch", [])
    just_now = 2 - LAG_US / SECOND / 2

    assert counted([sends(a=just_now, c=just_now + 0.2)], violations, at=2.0) == (0, 0)
    assert counted([sends(b=just_now + 0.1)], violations, at=4.0) == (1, 1)


@pytest.mark.parametrize(
    "epochs", [("", "first"), ("first", "second")], ids=["it begins to watch", "state was lost"]
)
def test_a_minute_is_exempt_after_a_start_and_after_a_loss(epochs: tuple[str, str]) -> None:
    violations = Violations(lambda _: RULES)
    before, after = epochs
    if before:
        violations.note(NOW - 2 * EXEMPT_US, before, [])
    violations.note(NOW, after, [])

    violations.note(NOW + 59 * SECOND, after, [sends(a=1.0, b=1.1, c=1.2)])
    assert violations.counts[LINE, "rate"] == 0
    violations.note(NOW + 65 * SECOND, after, [sends(d=61.0, e=61.1, f=61.2)])
    assert violations.counts[LINE, "rate"] == 1


def test_a_clock_that_steps_back_accuses_nobody() -> None:
    violations = Violations(lambda _: RULES)
    violations.note(NOW - EXEMPT_US, "epoch", [])
    violations.note(NOW, "epoch", [sends(a=-5.0), end("a", -4.0)])

    violations.note(NOW - 30 * SECOND, "epoch", [sends(b=-30.0, c=-29.9, d=-29.8)])
    violations.note(NOW - 20 * SECOND, "epoch", [end("b", 5.0)])

    assert set(violations.counts.values()) == {0}


def test_lines_that_only_a_later_version_knows_are_left_alone() -> None:
    violations = Violations(lambda _: RULES, exempt_us=0)

    violations.note(NOW, "epoch", [(NOW // 1000, "HOOK:shop id-1")])

    assert violations.counts == {}


async def test_who_judges_ends_although_a_cancellation_is_swallowed(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As redis-py does it in Python 3.11, where a reply comes in that moment."""
    asked = asyncio.Event()

    async def swallowing(_: Redis, __: Violations, after: str) -> str:
        asked.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return after

    monkeypatch.setattr("limits.admin.violations.look", swallowing)

    async with asyncio.timeout(5), judging(redis, lambda _: RULES, Background().beside):
        await asked.wait()
