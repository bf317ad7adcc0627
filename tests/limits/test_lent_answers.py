"""An answer that others asked for alike is taken, once it is stored for who takes it."""

from __future__ import annotations

from typing import Any

from limits_bench import ANSWERED, Worker, a_millisecond_goes_by, state
from redis.asyncio import Redis

from tracking.call import Ended, Lent
from tracking.operation import State

POSTAL = "tracking_postal_code"
MINE, THEIRS = {POSTAL: "8000"}, {POSTAL: "1010"}


async def lent(worker: Worker, **fields: Any) -> Lent:
    admission = await worker.admit(**fields)
    assert isinstance(admission, Lent), admission
    return admission


async def test_an_answer_is_fresh_for_the_account_that_asked_and_lent_to_those_who_say_the_same(
    worker: Worker, redis: Redis
) -> None:
    first = await worker.granted(id="shop/a", fields=MINE)
    await worker.finish(first)

    assert await worker.ended(id="shop/b") is State.SUCCESS
    assert await worker.ended(id="shop/c", fields=MINE) is State.SUCCESS
    told = await lent(worker, id="other/a", fields=MINE)
    assert told == ("shop", first.granted_us // 1000)
    assert await state(redis, "other/a") is None
    call = await worker.granted(id="other/b")
    assert (call.accounts, call.request.fields) == (("other",), {})


async def test_a_lent_answer_ends_a_request_once_it_is_stored_for_its_account(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted())
    told = await lent(worker, id="shop/a")

    assert told.account == "main"
    own = ANSWERED._replace(observed_ms=told.observed_ms)
    assert await worker.admit_with(own, id="shop/a") == Ended(State.SUCCESS)
    assert await state(redis, "shop/a") == "SUCCESS"


async def test_an_answer_that_is_too_old_is_lent_to_nobody(worker: Worker, redis: Redis) -> None:
    await worker.finish(await worker.granted(id="a"))
    await a_millisecond_goes_by(redis)

    assert (await worker.granted(id="shop/a", max_age=0.001)).accounts == ("shop",)


async def test_the_answer_of_a_call_that_was_shared_is_that_of_each_account(
    busy: Worker, free: Worker
) -> None:
    for each in ("shop/a", "other/a"):
        await busy.parked(id=each, fields=MINE)
    await free.finish(await free.taken())

    assert await free.ended(id="shop/b") is State.SUCCESS
    assert await free.ended(id="other/b", fields=MINE) is State.SUCCESS


async def test_what_an_account_unlocked_is_not_fresh_for_plain_requests(worker: Worker) -> None:
    await worker.finish(await worker.granted(id="shop/a", fields=MINE))

    assert (await worker.granted()).accounts == ("main",)
