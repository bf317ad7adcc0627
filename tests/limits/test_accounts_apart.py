"""Accounts that follow one number: a call, an answer, a place and an end for each of them."""

from __future__ import annotations

import asyncio

from limits_bench import (
    DEAD,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    failed,
    forget,
    retries_are_due,
    state,
)
from redis.asyncio import Redis

from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from limits.admin.view import View
from service.flow.dead_letters import letter_of
from tracking.operation import State
from tracking.request import Number

POSTAL = "tracking_postal_code"
MINE, THEIRS = {POSTAL: "8000"}, {POSTAL: "1010"}
N001, SHOPS = Number("N001"), Number("N001@shop")


async def states(redis: Redis, *ids: str) -> list[str | None]:
    return [await state(redis, each) for each in ids]


async def test_accounts_that_follow_one_number_make_a_call_each_at_once(
    worker: Worker, redis: Redis
) -> None:
    mine = await worker.granted(id="a", fields=MINE)
    theirs = await worker.granted(id="shop/a", fields=THEIRS)

    assert [call.account for call in (mine, theirs)] == ["main", "shop"]
    assert [call.request.number for call in (mine, theirs)] == ["N001", "N001"]
    assert [call.request.fields for call in (mine, theirs)] == [MINE, THEIRS]
    await worker.finish(mine)
    assert await states(redis, "a", "shop/a") == ["SUCCESS", "RUNNING"]


async def test_an_answer_of_another_account_is_not_fresh_though_it_was_asked_alike(
    worker: Worker,
) -> None:
    await worker.finish(await worker.granted(id="a", fields=MINE))
    own = await worker.granted(id="shop/a", fields=MINE)
    await worker.finish(own)

    assert await worker.ended(id="shop/b", fields=MINE) is State.SUCCESS
    assert (await worker.granted(id="other/a", fields=MINE)).account == "other"


async def test_within_an_account_one_call_answers_all_who_wait(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    for each in ("shop/a", "a", "shop/b", "b"):
        await busy.parked(id=each)

    assert await redis.lrange(KEYS.wait_list, 0, -1) == ["N001@shop", "N001"]
    first = await free.taken()
    assert sorted(first.operations) == ["shop/a", "shop/b"]
    await free.finish(first)
    assert await states(redis, "shop/a", "shop/b") == ["SUCCESS", "SUCCESS"]
    assert await states(redis, "a", "b") != ["SUCCESS", "SUCCESS"]


async def test_a_failed_call_of_one_account_neither_ends_nor_charges_another(
    worker: Worker, redis: Redis
) -> None:
    theirs = await worker.granted(id="shop/a")
    mine = await worker.granted(id="a")
    await worker.limiter.retry(theirs, failed(charged=True, delay=0.0), 0)
    await retries_are_due(redis)
    again = await worker.taken()
    await worker.finish(again, DEAD)

    assert (again.account, again.tries, mine.tries) == ("shop", 1, 0)
    assert await states(redis, "shop/a", "a") == ["ERROR", "RUNNING"]


async def test_the_history_of_a_parcel_is_of_one_account(worker: Worker, redis: Redis) -> None:
    for each in ("a", "shop/a"):
        await worker.finish(await worker.granted(id=each))
    view = View(redis, lambda _: worker.rules)

    assert await redis.zrange("tracking:operations:usps:N001", 0, -1) == ["a"]
    assert await redis.zrange("tracking:operations:usps:N001@shop", 0, -1) == ["shop/a"]
    told = [each["id"] for each in await view.operations_of(USPS, N001)]
    assert sorted(told) == ["a", "shop/a"]


async def test_a_number_pushed_by_hand_in_an_accounts_name_is_asked_for_nobody(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(id="shop/a", fields=MINE)
    await redis.rpush(KEYS.wait_list, SHOPS)

    pushed = await worker.taken()

    assert (pushed.request.number, pushed.account) == ("N001.shop", "main")
    await worker.finish(pushed)
    await worker.finish(call)
    assert await states(redis, "shop/a") == ["SUCCESS"]


async def test_a_number_of_an_account_that_somebody_pushes_twice_waits_once(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked(id="shop/a")
    await redis.rpush(KEYS.wait_list, SHOPS)

    call = await free.taken()

    assert (call.account, call.operations) == ("shop", ("shop/a",))


async def test_cancelling_a_number_reaches_every_account_and_an_id_only_its_own(
    busy: Worker, redis: Redis
) -> None:
    canceller = Canceller(redis, lambda _: busy.rules)
    for each in ("a", "shop/a", "shop/b", "other/a"):
        await busy.parked(id=each)

    assert (await canceller.cancel(USPS, N001, "shop/a")).operations == 1
    assert await states(redis, "a", "shop/a", "shop/b") == ["WAITING", "CANCELLED", "WAITING"]
    assert (await canceller.cancel(USPS, N001)).operations == 3
    assert not await redis.exists(KEYS.wait_requests, KEYS.wait_list)


async def test_forgetting_a_parcel_reaches_what_waits_runs_and_is_remembered_of_every_account(
    worker: Worker, forgetter: Forgetter, redis: Redis
) -> None:
    await worker.finish(await worker.granted(id="other/a"))
    running = await worker.granted(id="shop/a")
    await worker.granted(id="a")

    found = await forget(forgetter)

    assert (found.ended, len(found.calls), found.answers) == (2, 2, 1)
    await worker.finish(running)
    assert await states(redis, "shop/a", "a") == ["CANCELLED", "CANCELLED"]
    assert not await redis.keys("tracking:answer:*")
    assert not await redis.keys("tracking:operations:*")


async def test_cancelling_the_line_tells_whose_numbers_waited(busy: Worker, redis: Redis) -> None:
    for each in ("a", "shop/a"):
        await busy.parked(id=each)
    canceller = Canceller(redis, lambda _: busy.rules)

    told = [one.number async for one, came in canceller.cancel_courier(USPS) if came.operations]

    assert told == ["N001", SHOPS]


async def test_a_job_that_comes_back_finds_the_call_of_its_own_account(
    hire: Hire, worker: Worker, redis: Redis
) -> None:
    other = await hire(worker.rules)
    call = await worker.granted(id="shop/a", job="j1")
    await worker.granted(id="a", job="j2")

    again = await other.granted(id="shop/a", job="j1")

    assert (again.account, again.deaths) == ("shop", call.deaths + 1)
    assert await redis.hkeys(KEYS.wait_inflight) == await redis.hkeys(KEYS.wait_inflight)
    assert (await worker.raw("cancel", "N001", "a", NO_PLACES))[1] == "running"


async def test_each_account_whose_call_fails_has_a_record_in_dead_of_its_own(
    worker: Worker,
) -> None:
    calls = await asyncio.gather(*(worker.granted(id=each) for each in ("shop/a", "a", "other/a")))

    letters = [letter_of(each, "not_found", "", b"") for each in calls]
    assert len({each.id for each in letters}) == 3
