"""Who asks for a line whose calls are filled, what its quotas count, and what is told of it."""

from __future__ import annotations

import time

import pytest
from grouped import (
    AUTOMATIC,
    NEAR,
    THREE,
    drainer,
    group_of,
    groups_in,
    look,
    of_three,
    soon,
    spend,
    wait,
)
from limits_bench import KEYS, USPS, Hire, Worker, again_in, asked, flag_seconds, redis_us
from redis.asyncio import Redis

from limits import keys
from limits.admin.snapshot import LineSnapshots
from limits.admin.view import Place, View
from limits.rules import Rules
from tracking.call import Parked, TooLate
from tracking.line import Line
from tracking.operation import State
from tracking.request import Number

HOUR, DAY = 3_600.0, 86_400.0


async def test_who_parks_the_first_asks_when_its_time_is_over(wide: Worker, redis: Redis) -> None:
    parked = await wide.parked("A001", **AUTOMATIC)

    assert not parked.put_drain
    assert parked.ask_again is not None
    assert parked.ask_again - time.monotonic() == soon(2.0)
    token, ask = await drainer(redis)
    assert (token, ask) == (wide.limiter.token, soon(2.0))


async def test_who_parks_another_leaves_that_to_the_first(
    wide: Worker, hire: Hire, redis: Redis
) -> None:
    await wide.parked("A001", **AUTOMATIC)
    other = await hire(THREE)

    parked = await other.parked("A002", **AUTOMATIC)

    assert (parked.ask_again, parked.put_drain) == (None, False)
    assert (await drainer(redis))[0] == wide.limiter.token


async def test_a_request_that_is_sent_again_hears_the_same(wide: Worker) -> None:
    first = await wide.raw_admit("c", "A001", **AUTOMATIC)
    second = await wide.raw_admit("c", "A001", **AUTOMATIC)

    assert (first[1:3], first[3:]) == (["parked", "filling"], second[3:])
    assert len(first) == 5


async def test_who_parks_the_one_that_fills_the_call_puts_a_drain_job(
    wide: Worker, redis: Redis
) -> None:
    await wide.parked("A001", **AUTOMATIC)
    await wide.parked("A002", **AUTOMATIC)

    parked = await wide.parked("A003", **AUTOMATIC)

    assert parked.put_drain
    token, ask = await drainer(redis)
    assert token.startswith("tube:")
    assert ask <= 0


async def test_who_parks_a_manual_one_asks_at_once(wide: Worker, hire: Hire, redis: Redis) -> None:
    await wide.parked("A001", **AUTOMATIC)
    other = await hire(THREE)

    parked = await other.parked("N001")

    assert not parked.put_drain
    assert parked.ask_again is not None
    assert parked.ask_again <= time.monotonic()
    assert (await drainer(redis))[0] == other.limiter.token


async def test_a_full_process_that_parks_a_manual_one_puts_a_drain_job(
    wide: Worker, hire: Hire
) -> None:
    await wide.parked("A001", **AUTOMATIC)
    other = await hire(THREE)

    _, _, why, put, *ask = await other.raw(
        "admit", "c", keys.write_request(asked("N001"), "job", full=True), b""
    )

    assert (why, put, ask) == ("queue", 1, [])


async def test_where_slots_are_taken_who_is_parked_wakes_nobody_again_and_again(hire: Hire) -> None:
    worker = await hire(of_three(concurrent=1))
    await worker.granted("N000")

    parked = [await worker.parked(f"N00{n}") for n in range(1, 6)]

    assert [each.put_drain for each in parked] == [True, False, False, False, False]
    assert [each.ask_again for each in parked] == [None] * 5


async def test_a_retry_is_asked_for_while_others_wait_for_company(
    rationed: Worker, redis: Redis
) -> None:
    call = await rationed.granted("N001")
    await rationed.parked("A001", **AUTOMATIC)

    await rationed.limiter.retry(call, again_in(5.0), 5)

    assert await drainer(redis) == (rationed.limiter.token, soon(5.0))


async def test_the_flag_lasts_until_the_call_that_is_filled(rationed: Worker, redis: Redis) -> None:
    await rationed.parked("A001", **AUTOMATIC)
    assert await flag_seconds(redis) == soon(60.0)

    await redis.delete(KEYS.wait_list_activated)
    await rationed.take()

    assert await flag_seconds(redis) == soon(60.0)


async def test_the_end_of_a_call_does_not_leave_a_manual_one_to_who_fills(wide: Worker) -> None:
    call = await wide.granted("N001")
    await wide.parked("A001", **AUTOMATIC)
    await wide.parked("N001", max_age=0.0)  # behind its call, which does not serve it

    turn = await wide.finish(call, room=5)

    assert groups_in(turn) == [["N001", "A001"]]


@pytest.fixture
async def counting(hire: Hire) -> Worker:
    return await hire(of_three(per_hour=10, per_day=10, quotas_count_numbers=True))


async def of_quotas(redis: Redis) -> tuple[int, int]:
    return await redis.zcard(KEYS.calls_hour), int(await redis.get(KEYS.calls_day) or 0)


async def test_a_group_is_charged_for_each_of_its_numbers(counting: Worker, redis: Redis) -> None:
    await group_of(counting, "N001", "N002", "N003")
    assert await of_quotas(redis) == (3, 3)

    await counting.granted("N004")

    assert await of_quotas(redis) == (4, 4)


@pytest.mark.parametrize("quota", ["per_hour", "per_day"])
async def test_a_group_is_no_larger_than_what_is_left(hire: Hire, quota: str) -> None:
    worker = await hire(of_three(**{quota: 5, "quotas_count_numbers": True}))
    await wait(worker, *(f"N{n:03}" for n in range(9)))

    groups, why, _ = await look(worker)

    assert groups == [["N000", "N001", "N002"], ["N003", "N004"]]
    assert why == quota


async def test_an_unsent_group_gets_back_what_it_was_charged(
    counting: Worker, redis: Redis
) -> None:
    group = await group_of(counting, "N001", "N002", "N003")

    await counting.limiter.hand_back(group, 0)

    assert await of_quotas(redis) == (0, 0)


async def test_a_manual_request_waits_for_no_company(counting: Worker) -> None:
    for n in range(5):
        await counting.granted(f"N{n:03}")


async def test_estimates_count_numbers(hire: Hire, redis: Redis) -> None:
    worker = await hire(of_three(per_hour=6, quotas_count_numbers=True))
    await redis.zadd(keys.WORKERS, {"{}": await redis_us(redis) / 1000 + 10_000})
    await group_of(worker, "N000", "N001", "N002")
    for n in range(3, 12):
        await wait(worker, f"N{n:03}")
    view = View(redis, lambda _: worker.rules)

    told = [await view.place(Line(USPS), Number(f"N{n:03}")) for n in (5, 6, 11)]

    assert [each and each.bound_by for each in told] == ["rate", "per_hour", "per_hour"]
    hours = [(each.eta_seconds or 0.0) / HOUR for each in told if each]
    assert hours == pytest.approx([0.0, 1.0, 1.0], abs=0.01)


@pytest.fixture(autouse=True)
async def _a_worker_lives(redis: Redis) -> None:
    await redis.zadd(keys.WORKERS, {"{}": await redis_us(redis) / 1000 + 10_000})


async def place_of(redis: Redis, worker: Worker, number: str) -> Place:
    view = View(redis, lambda _: worker.rules)
    place = await view.place(Line(USPS), Number(number))
    assert place is not None
    return place


async def test_a_place_says_that_company_is_waited_for_and_until_when(
    rationed: Worker, redis: Redis
) -> None:
    await rationed.parked("A001", **AUTOMATIC)

    place = await place_of(redis, rationed, "A001")

    assert (place.state, place.bound_by, place.ahead) == (State.WAITING, "filling", 0)
    assert place.eta_seconds == place.until_seconds == soon(60.0)


async def test_the_line_says_so_too(rationed: Worker, redis: Redis) -> None:
    await rationed.parked("A001", **AUTOMATIC)

    snapshot = await LineSnapshots(redis, lambda _: rationed.rules).line(Line(USPS))

    assert snapshot.bound_by == "filling"
    assert snapshot.until_seconds == snapshot.last_starts_seconds == soon(60.0)


async def test_a_pause_is_named_before_company(wide: Worker, redis: Redis) -> None:
    await wide.parked("A001", **AUTOMATIC)
    await redis.set(KEYS.calls_paused, "courier_down", px=60_000)

    place = await place_of(redis, wide, "A001")

    assert place.bound_by == "paused"
    assert place.eta_seconds == soon(60.0)


async def test_a_look_changes_nothing(rationed: Worker, redis: Redis) -> None:
    await spend(rationed, redis, 1, seconds_ago=2 * HOUR)
    await rationed.parked("A001", **AUTOMATIC)
    before = await redis.zrange(KEYS.calls_hour, 0, -1)

    await place_of(redis, rationed, "A001")

    assert await redis.zrange(KEYS.calls_hour, 0, -1) == before


async def test_rechecks_beyond_their_share_are_told_when_it_lets_them_go(
    rationed: Worker, redis: Redis
) -> None:
    await wait(rationed, *(f"A{n:03}" for n in range(12)), **AUTOMATIC)
    await rationed.take(claims=True)

    told = [await place_of(redis, rationed, f"A{n:03}") for n in (3, 6, 11)]
    snapshot = await LineSnapshots(redis, lambda _: rationed.rules).line(Line(USPS))

    assert [each.bound_by for each in told] == ["filling"] * 3
    seconds = [each.eta_seconds or 0.0 for each in told]
    assert seconds == pytest.approx([61.0, 121.0, 181.0], abs=NEAR)
    assert snapshot.bound_by == "filling"
    assert snapshot.last_starts_seconds == pytest.approx(181.0, abs=NEAR)
    assert await flag_seconds(redis) == pytest.approx(181.0, abs=NEAR)


async def test_a_line_takes_as_many_rechecks_as_their_share_lets_go_in_time(
    rationed: Worker, redis: Redis
) -> None:
    await spend(rationed, redis, 1, seconds_ago=30.0)

    _, room = await rationed.raw("room", 1000, 300_000)

    assert room == 3 * 5  # their calls are due in 30 s, and then once a minute


async def test_whether_a_request_is_too_late_is_reckoned_by_calls(hire: Hire) -> None:
    worker = await hire(Rules(per_second=1, together=3))
    await worker.granted("N000")
    await wait(worker, *(f"N{n:03}" for n in range(1, 13)))

    taken = await worker.admit("N013", expires_at=time.time() + 10.0)
    refused = await worker.admit("N014", expires_at=time.time() + 2.0)

    assert isinstance(taken, Parked)
    assert isinstance(refused, TooLate)
