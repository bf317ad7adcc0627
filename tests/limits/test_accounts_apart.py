"""Requests of several accounts for one number: one call only where they say the same."""

from __future__ import annotations

import json
from typing import Any

from limits_bench import (
    DEAD,
    FAST,
    KEYS,
    NO_PLACES,
    Hire,
    Worker,
    a_millisecond_goes_by,
    failed,
    retries_are_due,
    state,
)
from redis.asyncio import Redis

from service.flow.dead_letters import letter_of
from tracking.call import Call, Turn, Verdict
from tracking.operation import State

POSTAL = "tracking_postal_code"
MINE, THEIRS = {POSTAL: "8000"}, {POSTAL: "1010"}


async def waiting_record(redis: Redis) -> dict[str, Any]:
    return json.loads(await redis.hget(KEYS.wait_requests, "N001") or "{}")


async def states(redis: Redis, *ids: str) -> list[str]:
    return [await state(redis, each) for each in ids]


async def finished(worker: Worker, call: Call) -> Turn:
    """End a call, as the flow does: once its answer is stored for all whose requests it ends."""
    while (turn := await worker.finish(call)).owed:
        call = call._replace(accounts=call.accounts + turn.owed)
    return turn


async def the_next(worker: Worker, call: Call, verdict: Verdict | None = None) -> Call:
    """End a call, and begin the one that follows it."""
    turn = await (worker.finish(call, verdict) if verdict else finished(worker, call))
    return turn.calls[0] if turn.calls else await worker.taken()


async def test_accounts_that_say_the_same_share_a_call_and_its_answer(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(id="a", fields=MINE)
    await worker.parked(id="shop/a", fields=MINE)
    await worker.parked(id="other/a", fields=THEIRS)

    turn = await worker.finish(call)
    assert turn.owed == ("shop",)
    assert await states(redis, "a", "shop/a") == ["RUNNING", "WAITING"]

    await worker.finish(call._replace(accounts=("main", "shop")))
    assert await states(redis, "a", "shop/a", "other/a") == ["SUCCESS", "SUCCESS", "WAITING"]
    assert await worker.ended(id="shop/b", fields=MINE) is State.SUCCESS


async def test_who_says_something_else_waits_behind_the_call_for_one_of_its_own(
    worker: Worker, redis: Redis
) -> None:
    first = await worker.granted(id="a", fields=MINE)
    assert (await worker.parked(id="shop/a", fields=THEIRS)).why == "running"

    second = await the_next(worker, first)

    assert await states(redis, "a", "shop/a") == ["SUCCESS", "RUNNING"]
    assert (second.request.fields, second.accounts) == (THEIRS, ("shop",))
    assert second.operations == ("shop/a",)
    await worker.finish(second)
    assert await states(redis, "shop/a") == ["SUCCESS"]


async def test_accounts_that_wait_together_are_called_one_after_the_other(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked(id="shop/a", fields=THEIRS)
    await busy.parked(id="a", fields=MINE)
    await busy.parked(id="other/a", fields=THEIRS)
    await busy.parked(id="a2", fields={"tracking_state": "ZH"})

    first = await free.taken()
    assert first.request.fields == THEIRS
    assert (sorted(first.accounts), sorted(first.operations)) == (
        ["other", "shop"],
        ["other/a", "shop/a"],
    )
    assert await states(redis, "shop/a", "other/a", "a") == ["RUNNING", "RUNNING", "WAITING"]
    assert (await waiting_record(redis))["state"] == "behind"

    second = await the_next(free, first)
    assert second.request.fields == {**MINE, "tracking_state": "ZH"}
    assert sorted(second.operations) == ["a", "a2"]
    await free.finish(second)
    assert await states(redis, "shop/a", "other/a", "a", "a2") == ["SUCCESS"] * 4


async def test_wrong_fields_of_one_account_fail_its_own_requests_only(
    worker: Worker, redis: Redis
) -> None:
    first = await worker.granted(id="shop/a", fields=THEIRS)
    await worker.repeat(first, 0.0)
    await worker.parked(id="a", fields=MINE)

    wrong = await worker.taken()
    right = await the_next(worker, wrong, DEAD)

    assert (wrong.request.fields, right.request.fields) == (THEIRS, MINE)
    assert (right.tries, right.operations) == (0, ("a",))
    await worker.finish(right)
    assert await states(redis, "shop/a", "a") == ["ERROR", "SUCCESS"]


async def test_what_one_account_says_later_is_not_asked_for_another_that_said_the_same_before(
    busy: Worker, free: Worker
) -> None:
    for each in ("shop/a", "other/a"):
        await busy.parked(id=each, fields=MINE)
    await busy.parked(id="shop/b", fields=THEIRS)

    first = await free.taken()
    second = await the_next(free, first)

    assert (first.request.fields, sorted(first.operations)) == (THEIRS, ["shop/a", "shop/b"])
    assert (second.request.fields, second.operations) == (MINE, ("other/a",))


async def test_requests_without_an_id_are_mains(busy: Worker, free: Worker) -> None:
    await busy.parked(id="shop/a", fields=MINE)
    await busy.parked()

    first = await free.taken()
    assert first.operations == ("shop/a",)
    second = await the_next(free, first)

    assert (second.accounts, second.request.fields, second.requests) == (("main",), {}, 1)


async def test_a_number_pushed_by_hand_is_mains_and_takes_no_answer_of_another_account(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted(id="shop/a", fields=MINE)
    await redis.rpush(KEYS.wait_list, "N001")

    second = await the_next(worker, call._replace(accounts=("shop",)))

    assert (second.accounts, second.request.fields) == (("main",), {})


async def test_of_many_operations_those_of_another_account_go_on_after_the_call(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    ids = [f"{'shop/' if each % 2 else ''}{each}" for each in range(40)]
    for each in ids:
        await busy.parked(id=each, fields=THEIRS if "/" in each else MINE)

    first = await free.taken()
    second = await the_next(free, first)
    await free.finish(second)

    assert (first.request.fields, second.request.fields) == (MINE, THEIRS)
    assert not any("/" in each for each in first.operations)
    assert all("/" in each for each in second.operations)
    assert set(await states(redis, *ids)) == {"SUCCESS"}
    assert not await redis.exists(KEYS.wait_requests)
    assert not await redis.hexists(KEYS.wait_inflight, "=N001")


async def test_a_call_that_is_repeated_goes_on_with_the_same_account(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(FAST)
    first = await worker.granted(id="shop/a", fields=THEIRS)
    await worker.parked(id="a", fields=MINE)
    await worker.limiter.hand_back(first, 0)

    again = await worker.taken()

    assert (again.request.fields, again.operations) == (THEIRS, ("shop/a",))
    assert await states(redis, "shop/a", "a") == ["RUNNING", "WAITING"]


async def test_a_cancelled_request_is_called_for_nobody(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked(id="shop/a", fields=THEIRS)
    await busy.parked(id="a", fields=MINE)
    await busy.raw("cancel", "N001", "shop/a", b"[]")

    call = await free.taken()

    assert (call.request.fields, call.operations) == (MINE, ("a",))
    assert await states(redis, "shop/a") == ["CANCELLED"]


async def test_who_waits_behind_a_call_for_others_can_be_cancelled_however_long_it_waits(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked(id="shop/a", fields=THEIRS)
    await busy.parked(id="a", fields=MINE)
    await a_millisecond_goes_by(redis)
    call = await free.taken()

    words = [(await free.raw("cancel", "N001", each, NO_PLACES))[1] for each in ("a", "shop/a")]
    await free.finish(call)

    assert words == ["cancelled", "running"]
    assert await states(redis, "a", "shop/a") == ["CANCELLED", "SUCCESS"]
    assert not await redis.exists(KEYS.wait_requests)


async def test_an_account_is_not_charged_the_failed_calls_of_one_that_was_cancelled(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(FAST)
    first = await worker.granted(id="shop/a", fields=THEIRS)
    await a_millisecond_goes_by(redis)
    await worker.parked(id="a", fields=MINE)
    await worker.limiter.retry(first, failed(charged=True, delay=0.0), 0)
    await worker.raw("cancel", "N001", "shop/a", NO_PLACES)
    await retries_are_due(redis)

    call = await worker.taken()

    assert (call.operations, call.request.fields) == (("a",), MINE)
    assert (call.attempts, call.tries, call.failing_since) == (0, 0, None)
    assert call.waiting_since > first.waiting_since


async def test_requests_without_an_id_have_their_turn_by_the_first_of_them(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked()
    await a_millisecond_goes_by(redis)
    await busy.parked(id="shop/a", fields=MINE)
    await a_millisecond_goes_by(redis)
    await busy.parked()

    first = await free.taken()
    second = await the_next(free, first)

    assert (first.accounts, first.requests, first.operations[1:]) == (("main",), 2, ())
    assert (second.accounts, second.operations) == (("shop",), ("shop/a",))


async def test_a_record_of_before_accounts_were_named_asks_with_what_it_holds(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked(id="shop/a", fields=MINE)
    old = await waiting_record(redis)
    del old["account"]
    await redis.hset(KEYS.wait_requests, "N001", json.dumps(old))
    await a_millisecond_goes_by(redis)
    await busy.parked(id="other/a", fields=THEIRS)

    first = await free.taken()
    second = await the_next(free, first)

    assert (first.request.fields, first.operations) == (MINE, ("shop/a",))
    assert (second.request.fields, second.operations) == (THEIRS, ("other/a",))


async def test_each_account_whose_call_fails_has_a_record_in_dead_of_its_own(
    busy: Worker, free: Worker
) -> None:
    await busy.parked(id="shop/a", fields=THEIRS)
    await busy.parked(id="a", fields=MINE)
    await busy.parked(id="other/a")

    calls = [await free.taken()]
    calls += [await the_next(free, calls[-1], DEAD)]
    calls += [await the_next(free, calls[-1], DEAD)]

    letters = [letter_of(each, "not_found", "", b"") for each in calls]
    assert len({each.id for each in letters}) == 3
    assert [each.operations for each in letters] == [("shop/a",), ("a",), ("other/a",)]
