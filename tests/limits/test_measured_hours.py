"""What a judge keeps of measured calls, by hours, and that operations add up at one instant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from limits_bench import ANSWERED, KEYS, USPS, Hire, sent
from redis.asyncio import Redis

from limits import keys
from limits.admin import proof
from limits.admin.proof import HOUR, Judge, balance, begin_balance, measured
from limits.admin.violations import Violations, Worst
from limits.pipeline import unconfirmed
from limits.rules import RuleBook, Rules
from tracking.line import Line, courier_line

LINE = courier_line(USPS)
RULES = Rules(per_second=2, concurrent=2, call_timeout_seconds=30.0)
SECOND = 1_000_000
NOW = 1_000_000 * SECOND


@pytest.fixture
def judge(redis: Redis) -> Callable[[str], Judge]:
    book = RuleBook(lambda _: RULES)
    return lambda who: Judge(unconfirmed(redis), book, who)


async def report(redis: Redis, *sends: float, ends: float = 0.0) -> None:
    """What a worker reports of calls that left so many seconds ago."""
    seconds, micros = await redis.time()
    now = int(seconds) * SECOND + int(micros)
    told = [part for ago in sends for part in (f"call{ago}", now - round(ago * SECOND))]
    text = f"{LINE} {json.dumps(told).replace(' ', '')}"
    await redis.xadd(keys.MEASURED, {"m": text})
    if ends:
        await redis.xadd(keys.MEASURED, {"m": f"{LINE} call{ends}"})


def test_the_worst_second_and_the_most_calls_at_once_are_those_of_any_instant() -> None:
    violations = Violations(lambda _: RULES)
    told = ["a", NOW, "b", NOW + 900_000, "c", NOW + 1_100_000, "d", NOW + 1_150_000]
    text = json.dumps(told).replace(" ", "")
    began, ended = NOW // 1000 + 1_100, NOW // 1000 + 950
    violations.note(NOW + 3 * SECOND, "e", [(ended, f"{LINE} a"), (began, f"{LINE} {text}")])

    assert violations.worst == {LINE: Worst(3, 3, 4, 0, 2, 2)}


def test_each_start_that_broke_a_limit_is_counted_with_the_worst() -> None:
    violations = Violations(lambda _: RULES, exempt_us=-10 * SECOND)
    for start, name in ((NOW, "a"), (NOW + 5 * SECOND, "b")):
        text = json.dumps([part for n in range(3) for part in (f"{name}{n}", start + n)])
        entry = (start // 1000 + 10, f"{LINE} {text.replace(' ', '')}")
        violations.note(start + 2 * SECOND, "e", [entry])

    assert violations.worst == {LINE: Worst(3, 6, 6, 6, 2, 2)}


async def test_a_second_judge_goes_on_where_the_first_one_left_off(
    redis: Redis, judge: Callable[[str], Judge]
) -> None:
    first, second = judge("one"), judge("two")
    await redis.set(keys.EPOCH, "new 0")
    await report(redis, 2.2, 2.1, 1.0)
    await first.judge()
    await second.judge()
    await second.write()
    only_one = await measured(redis)
    await redis.delete(keys.planner("#judge"))
    await asyncio.sleep(0.6)  # the last one is not too young any more
    await second.judge()
    found = await measured(redis)

    assert only_one.lines == {LINE: Worst(2, 2, 2, 0, 2, 2)}
    assert found.lines == {LINE: Worst(2, 2, 3, 0, 2, 2)}
    assert found.seconds > found.judged_seconds == 0  # the rules before are not known


async def test_what_was_not_written_before_an_hour_ended_counts_in_the_next_one(
    redis: Redis, judge: Callable[[str], Judge]
) -> None:
    one = judge("one")
    await one.judge()
    hour = one._hour  # noqa: SLF001 - it ends while nothing of this is written
    hour.at -= HOUR
    hour.lines[LINE] = Worst(2, 2, 3, 0, 2, 2)
    one._changed.add(LINE)  # noqa: SLF001 - as above

    await one.judge()
    await one.write()

    assert (await measured(redis)).lines == {LINE: Worst(2, 2, 3, 0, 2, 2)}


async def test_what_was_measured_is_gone_after_a_day(
    redis: Redis, judge: Callable[[str], Judge]
) -> None:
    await report(redis, 2.0)
    await judge("one").judge()
    (name,) = await redis.keys("tracking:worst:*")

    assert 24 * HOUR < await redis.ttl(name) <= 26 * HOUR


async def test_operations_that_were_admitted_are_those_that_ended_and_those_that_are_open(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(Rules(per_second=10, concurrent=1))
    await begin_balance(redis)
    call = await worker.granted("N001", id="a")
    await worker.parked("N001", id="b")
    await worker.parked("N002", id="c")
    await worker.parked("N003")  # without an id: nobody can tell how many these are
    first = await balance(redis)
    await sent(call)
    await worker.finish(call, ANSWERED)
    then = await balance(redis)

    assert (first.before, first.admitted, first.open, first.missing) == (0, 3, 3, 0)
    assert (then.admitted, then.ended["SUCCESS"], then.missing) == (3, 1 + (then.open == 1), 0)


async def test_what_ends_in_the_step_that_admits_it_is_admitted_and_ended(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(RULES)
    call = await worker.granted("N001", id="a")
    await sent(call)
    await worker.finish(call, ANSWERED)
    await worker.ended("N001", id="b")
    found = await balance(redis)

    assert (found.admitted, found.ended["SUCCESS"], found.missing) == (2, 2, 0)


async def test_what_somebody_deleted_and_puts_again_counts_once(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(per_second=10, concurrent=1))
    await worker.granted("N001", id="a")
    await worker.parked("N002", id="b")
    await redis.hdel(KEYS.wait_requests, "N002")
    await worker.parked("N002", id="b")
    found = await balance(redis)

    assert (found.admitted, found.open, found.missing) == (2, 2, 0)


async def test_a_line_that_got_busy_during_the_look_is_looked_at_too(
    hire: Hire, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(_: Redis) -> list[Line]:
        return []

    monkeypatch.setattr(proof, "busy_lines", none)
    await (await hire(RULES)).granted("N001", id="a")
    found = await balance(redis)

    assert (found.admitted, found.open, found.missing) == (1, 1, 0)


async def test_an_operation_that_went_astray_is_missing(hire: Hire, redis: Redis) -> None:
    worker = await hire(RULES)
    await worker.granted("N001", id="a")
    await redis.hdel(KEYS.counts, "open")

    assert (await balance(redis)).missing == 1


async def test_what_was_open_when_counting_began_is_part_of_the_balance(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(RULES)
    await worker.granted("N001", id="a")
    await redis.delete(keys.OPERATIONS)  # as a version before left it
    await begin_balance(redis)
    await begin_balance(redis)
    await worker.granted("N002", id="b")
    found = await balance(redis)

    assert (found.before, found.admitted, found.open, found.missing) == (1, 1, 2, 0)
    assert found.since is not None


async def test_a_refused_request_is_counted_apart(hire: Hire, redis: Redis) -> None:
    worker = await hire(RULES)
    await worker.granted("N001", id="a")
    await worker.admit("N002", id="a")
    found = await balance(redis)

    assert (found.refused["id_reused"], found.admitted, found.missing) == (1, 1, 0)
