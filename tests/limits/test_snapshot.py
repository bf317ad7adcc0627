"""What people and programs are shown of lines, numbers and operations; reading changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from held import look, since
from limits_bench import DEAD, FAST, KEYS, USPS, Hire, Worker, failed, redis_us
from redis.asyncio import Redis

from limits import keys
from limits.admin.snapshot import LINES_AT_ONCE, LineSnapshot, LineSnapshots
from limits.admin.view import Place, View
from limits.rules import Rules
from tracking.errors import LimitsDown
from tracking.line import Line, courier_line
from tracking.operation import State
from tracking.request import Number, Origin

N001 = Number("N001")


@pytest.fixture(autouse=True)
async def a_worker_lives(redis: Redis) -> None:
    who = {"token": "t", "host": "h", "pid": 1, "version": "v", "since": 0.0}
    await redis.zadd(keys.WORKERS, {json.dumps(who): await redis_us(redis) / 1000 + 10_000})


def view_of(redis: Redis, rules: Rules = FAST) -> View:
    return View(redis, lambda _: rules)


async def line_view(redis: Redis, rules: Rules = FAST) -> LineSnapshot:
    (view,) = await view_of(redis, rules).lines([Line(USPS)])
    return view


async def test_a_courier_at_rest_shows_nothing_but_its_limits(redis: Redis) -> None:
    view = await line_view(redis, Rules())

    assert (view.running, view.concurrent, view.per_second) == (0, 20, 2)
    assert (view.bound_by, view.until_seconds, view.oldest_age_seconds) == ("", None, None)


async def test_a_courier_shows_what_runs_and_what_waits_where(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")
    await busy.parked("N002", origin=Origin.AUTOMATIC)
    await redis.zadd(KEYS.wait_later, {"N003": 9e15})

    view = await line_view(redis, busy.rules)

    assert (view.running, view.started_last_second) == (1, 1)
    assert (view.waiting_manual, view.waiting_automatic, view.waiting_later) == (1, 1, 1)
    assert view.oldest_age_seconds is not None
    assert 0 <= view.oldest_age_seconds < 60
    assert (view.asked, view.counts) == (True, {})


async def test_a_courier_shows_what_happened_in_the_last_hour(worker: Worker, redis: Redis) -> None:
    await worker.finish(await worker.granted("N001"))
    before = await redis.time()
    at = before[0] - before[0] % 600
    await redis.hset(keys.ten_minutes(at - 3_600, USPS), "ERROR 100 100", 2)
    await redis.hset(keys.ten_minutes(at - 4_200, USPS), "ERROR 100 100", 4)

    view = await line_view(redis)

    assert view.asked
    assert view.counts["SUCCESS"] == 1
    assert view.counts.get("ERROR", 0) <= 2, "what is older does not count"


async def test_all_couriers_with_work_are_shown_by_name_and_those_asked_for(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted("N001", slug="zeta")
    await worker.granted("N001", slug="alpha")

    views = await view_of(redis).lines([Line("gls"), Line("zeta")])

    assert [view.line for view in views] == ["alpha", "gls", "zeta"]


async def test_without_a_worker_that_is_what_binds(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")
    await redis.delete(keys.WORKERS)

    assert (await line_view(redis, busy.rules)).bound_by == "no_worker"
    assert (await view_of(redis).line(Line("gls"))).bound_by == "", "nobody waits for it"


async def test_the_quiet_time_after_a_loss_binds_all(busy: Worker, redis: Redis) -> None:
    ends = await redis_us(redis) + 50_000_000
    await redis.set(keys.EPOCH, f"{busy.epoch.name} {ends}")

    view = await line_view(redis, busy.rules)

    assert view.bound_by == "quiet"
    assert view.until_seconds is not None
    assert 40 < view.until_seconds <= 50


async def test_a_slot_binds(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001")

    assert (await line_view(redis, busy.rules)).bound_by == "concurrency"


async def test_the_rate_binds_until_the_last_that_waits_is_due(hire: Hire, redis: Redis) -> None:
    # Two in 20 s: what a busy machine holds up between two steps is nothing beside that.
    worker = await hire(Rules(guard_ms=19_000))
    for n in range(6):
        await worker.admit(f"N{n:03}")

    view = await line_view(redis, worker.rules)

    assert (view.bound_by, view.until_seconds) == ("rate", pytest.approx(4 * 10.0, abs=5.0))


async def test_a_pause_binds_and_says_why(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted(), failed("rate_limited", named=40.0), 0)

    view = await line_view(redis)

    assert (view.bound_by, view.paused_why) == ("paused", "rate_limited")
    assert view.until_seconds == pytest.approx(40.0, abs=5.0)


@pytest.mark.parametrize(
    ("quota", "name", "most"),
    [({"per_hour": 1}, "per_hour", 3602), ({"per_day": 1}, "per_day", 86400)],
)
async def test_a_quota_binds_until_it_ends(
    hire: Hire, redis: Redis, quota: dict[str, int], name: str, most: float
) -> None:
    worker = await hire(replace(FAST, **quota))
    await worker.granted("N001")
    await worker.parked("N002")

    view = await line_view(redis, worker.rules)

    assert view.bound_by == name
    assert view.until_seconds is not None
    assert 0 < view.until_seconds <= most


async def test_a_number_that_runs_has_no_place_in_line(worker: Worker, redis: Redis) -> None:
    await worker.granted()

    assert await view_of(redis).place(Line(USPS), N001) == Place(State.RUNNING, "")


async def test_a_number_in_line_shows_how_many_are_ahead_and_when_it_is_due(
    busy: Worker, redis: Redis
) -> None:
    for number in ("A001", "A002", "A003", "N001"):
        await busy.parked(number)
    await busy.parked("AUTO", origin=Origin.AUTOMATIC)

    place = await view_of(redis, Rules()).place(Line(USPS), N001)

    assert place is not None
    assert (place.state, place.list, place.ahead) == (State.WAITING, "manual", 4)
    assert place.eta_seconds == pytest.approx(2 * 1.02), "two at once, two, and this one"


async def test_an_automatic_request_lets_three_others_go_first(busy: Worker, redis: Redis) -> None:
    for n in range(9):
        await busy.parked(f"M{n:03}")
    await busy.parked("N001", origin=Origin.AUTOMATIC)

    place = await view_of(redis).place(Line(USPS), N001)

    assert place is not None
    assert (place.list, place.ahead) == ("automatic", 3)


async def test_a_retry_shows_when_it_is_due(worker: Worker, redis: Redis) -> None:
    await worker.limiter.retry(await worker.granted(), failed(delay=90.0), 0)

    place = await view_of(redis).place(Line(USPS), N001)

    eta = pytest.approx(90.0, abs=5.0)
    due = Place(State.WAITING, "later", None, eta, 1, "retry", until_seconds=eta)
    assert place == due


async def test_a_number_pushed_by_hand_has_its_place(busy: Worker, redis: Redis) -> None:
    await redis.rpush(KEYS.wait_list, "N000", "N001")

    place = await view_of(redis).place(Line(USPS), N001)

    assert place is not None
    assert (place.state, place.ahead) == (State.WAITING, 1)
    assert busy.rules.concurrent == 1


async def test_a_number_that_nobody_waits_for_has_no_place(redis: Redis) -> None:
    assert await view_of(redis).place(Line(USPS), N001) is None


async def test_an_operation_is_followed_from_waiting_to_its_end(
    worker: Worker, redis: Redis
) -> None:
    view = view_of(redis)
    assert await view.operation("op-1") is None

    call = await worker.granted()
    await worker.parked(id="op-1")
    waits = await view.operation("op-1")
    (second,) = (await worker.finish(call, DEAD, 1)).calls
    runs = await view.operation("op-1")
    await worker.finish(second)
    ended = await view.operation("op-1")

    assert waits == {
        "status": "WAITING",
        "startedAt": None,
        "finishedAt": None,
        "output": None,
        "tracking": "usps:N001",
    }
    assert runs is not None
    assert ended is not None
    assert (runs["status"], ended["status"]) == ("RUNNING", "SUCCESS")
    assert runs.keys() == ended.keys() == waits.keys()


async def test_reading_changes_nothing(busy: Worker, redis: Redis) -> None:
    await busy.parked("N001", id="op-1")
    held = await look(redis)
    view = view_of(redis, Rules(per_hour=5, per_day=5))

    await view.lines([Line(USPS)])
    await view.place(Line(USPS), N001)
    await view.operation("op-1")

    before, after = await since(redis, held)
    assert after == before


async def test_without_redis_every_view_says_so() -> None:
    async with Redis.from_url("redis://127.0.0.1:1/0", decode_responses=True) as away:
        view = view_of(away)
        of_parcel = (view.operation("op-1"), view.place(Line(USPS), N001))
        for reading in (view.lines(), view.line(Line(USPS)), view.workers(), *of_parcel):
            with pytest.raises(LimitsDown):
                await reading


RULES = Rules(per_second=2, concurrent=1)
ELSEWHERE = [courier_line(USPS), Line("fedex")]


async def read(redis: Redis, rules: Rules) -> list[LineSnapshot]:
    return await LineSnapshots(redis, lambda _: rules).busy(ELSEWHERE)


async def wait_for(redis: Redis, number: str, seconds: float) -> None:
    """Let a number have waited for so long."""
    record = json.loads(str(await redis.hget(KEYS.wait_requests, number)))
    record["since"] -= round(seconds * 1000)
    await redis.hset(KEYS.wait_requests, number, json.dumps(record))


async def test_a_line_at_rest_is_left_out_unless_it_has_a_quota(redis: Redis) -> None:
    assert await read(redis, RULES) == []
    [fedex, usps] = await read(redis, replace(RULES, per_hour=60, per_day=1_000))
    assert (usps.line, usps.hour_left, usps.day_left) == ("usps", 60, 1_000)
    assert (fedex.line, fedex.running, fedex.rate_unused) == ("fedex", 0, 0)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"calls": 4, "numbers": 90}, (4, 90, 22.5)),
        ({"open": 1}, (0, 0, None)),
    ],
)
async def test_how_full_calls_are_is_told(
    redis: Redis, counts: dict[str, int], told: tuple[int, int, float | None]
) -> None:
    await redis.hset(KEYS.counts, mapping=counts)
    snapshots = LineSnapshots(redis, lambda _: replace(RULES, together=30))

    usps = await snapshots.line(courier_line(USPS))

    assert (usps.together, snapshots.together(USPS)) == (30, 30)
    assert (usps.calls, usps.numbers, usps.numbers_a_call) == told


async def test_what_runs_waits_and_binds_is_told(redis: Redis, hire: Hire) -> None:
    worker = await hire(RULES)
    await worker.granted("BUSY")
    await worker.parked("N001")
    await worker.parked("N002", origin=Origin.AUTOMATIC)
    await redis.zadd("tracking:workers", {"a worker": 9e15})
    await wait_for(redis, "N001", 90)

    [usps] = await read(redis, RULES)

    assert (usps.running, usps.waiting) == (1, 2)
    assert (usps.waiting_manual, usps.waiting_automatic) == (1, 1)
    assert 90 <= (usps.oldest_age_seconds or 0) < 100
    assert usps.bound_by == "concurrency"
    assert usps.rate_unused == 0


async def test_the_rate_is_unused_where_somebody_waits_and_nobody_calls(
    redis: Redis, hire: Hire
) -> None:
    worker = await hire(RULES)
    call = await worker.granted("BUSY")
    await worker.parked("N001")
    await worker.finish(call)
    await wait_for(redis, "N001", 0.5)
    [just_now] = await read(redis, RULES)
    await wait_for(redis, "N001", 5)

    [usps] = await read(redis, RULES)

    assert (just_now.waiting_manual, just_now.rate_unused) == (1, 0)
    assert (usps.running, usps.waiting_manual, usps.rate_unused) == (0, 1, 1)


async def test_what_a_quota_leaves_counts_the_calls_that_were_made(
    redis: Redis, hire: Hire
) -> None:
    rules = Rules(per_second=10, per_hour=3, per_day=2)
    worker = await hire(rules)
    await worker.granted("N001")
    await worker.granted("N002")

    [_, usps] = await read(redis, rules)

    assert (usps.line, usps.hour_left, usps.day_left) == ("usps", 1, 0)


async def test_lines_beyond_one_round_trip_are_read_too(redis: Redis) -> None:
    lines = [f"courier-{index:03}" for index in range(LINES_AT_ONCE + 1)]
    await redis.sadd("wait_slugs", *lines)
    await redis.rpush(f"wait_list:{lines[-1]}", "94001")

    found = await read(redis, RULES)

    assert [each.line for each in found] == lines
    assert [each.waiting_manual for each in found] == [0] * LINES_AT_ONCE + [1]


async def test_a_line_with_a_broken_key_leaves_the_others_to_be_told(
    redis: Redis, hire: Hire
) -> None:
    worker = await hire(RULES)
    await worker.granted("N001", slug="fedex")
    await redis.sadd(KEYS.wait_list, "N001")
    await redis.sadd("wait_slugs", "usps")

    [fedex, usps] = await read(redis, RULES)

    assert (fedex.running, usps.running, usps.bound_by) == (1, 0, "broken")
