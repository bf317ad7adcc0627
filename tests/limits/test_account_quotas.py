"""The quotas of accounts: so many calls on a UTC day, over all couriers, and not one more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from grouped import THREE, numbers_of
from limits_bench import (
    FAST,
    KEYS,
    USPS,
    Book,
    Hire,
    Shelf,
    Worker,
    asked,
    redis_us,
    retries_are_due,
)
from redis.asyncio import Redis

from limits.admin.accounts import AccountQuotas
from limits.admin.view import View
from limits.keys import ACCOUNT_CALLS, ACCOUNT_QUOTAS, REVISION
from tracking.call import Parked, TooLate
from tracking.line import DELIVERY, Line
from tracking.operation import State
from tracking.request import MAIN, Account, Number, Origin, operation_id

DAY_US = 86_400_000_000
SPREAD_MS = 10_000
"""Within so many ms of the reset all are due who waited for it."""
SHOP, OTHER = Account("shop"), Account("other")
LINE = Line(USPS)


@pytest.fixture
def shelf() -> Shelf:
    shelf = Shelf()
    shelf.ration(shop=2)
    return shelf


@pytest.fixture
async def clerk(hire: Hire, shelf: Shelf) -> Worker:
    """A worker that knows the quotas of the shelf."""
    return await hire(Book(shelf))


@pytest.fixture
async def people(redis: Redis) -> AccountQuotas:
    return AccountQuotas(redis, lambda _: FAST)


def of_shop(name: str) -> dict[str, Any]:
    return {"id": f"shop/{name}"}


async def use_up(worker: Worker, account: str = "shop", calls: int = 2) -> None:
    """Have all calls of the day made, for numbers of their own."""
    for n in range(calls):
        call = await worker.granted(f"USED{n}", id=f"{account}/used-{n}")
        await worker.finish(call)


async def resets_ms(redis: Redis) -> int:
    return (await redis_us(redis) // DAY_US + 1) * DAY_US // 1000


async def due_of(redis: Redis) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = await redis.zrange(KEYS.wait_later, 0, -1, withscores=True)
    return found


async def test_an_account_has_so_many_calls_a_day_and_the_next_request_waits_for_the_next_day(
    clerk: Worker, redis: Redis
) -> None:
    await use_up(clerk)

    parked = await clerk.parked("N003", **of_shop("third"))

    assert parked.why == "account_quota"
    ((number, due),) = await due_of(redis)
    assert number == "N003@shop"
    assert 0 <= due - await resets_ms(redis) <= SPREAD_MS
    assert await redis.hgetall(ACCOUNT_CALLS) == {"shop": "2"}
    assert await redis.pexpiretime(ACCOUNT_CALLS) == await resets_ms(redis)


async def test_nobody_else_waits_for_it(clerk: Worker) -> None:
    await use_up(clerk)
    await clerk.parked("N003", **of_shop("third"))

    await clerk.granted("N003", id="other/third")
    await clerk.granted("N003")


async def test_it_is_one_quota_over_all_couriers_and_workers(
    clerk: Worker, hire: Hire, shelf: Shelf
) -> None:
    other = await hire(Book(shelf))
    await clerk.granted("N001", **of_shop("a"))
    await other.granted("N002", slug="fedex", **of_shop("b"))

    assert (await other.parked("N003", slug="fedex", **of_shop("c"))).why == "account_quota"


async def test_main_may_have_one_too(hire: Hire, redis: Redis) -> None:
    shelf = Shelf()
    shelf.ration(main=1)
    worker = await hire(Book(shelf))
    await worker.granted("N001")

    assert (await worker.parked("N002")).why == "account_quota"
    assert await redis.hgetall(ACCOUNT_CALLS) == {"main": "1"}


def with_rules(shelf: Shelf, **limits: Any) -> Shelf:
    return Shelf(replace(shelf.rules, **limits), shelf.revision, quotas=shelf.quotas)


async def test_where_its_turn_comes_it_makes_way_for_those_behind_it(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    clerk = await hire(Book(with_rules(shelf, concurrent=1)))
    first = await clerk.granted("N001", **of_shop("a"))
    for name in ("b", "c", "d"):
        await clerk.parked(f"N-{name}", **of_shop(name))
    await clerk.parked("LAST")

    (second,) = (await clerk.finish(first, room=5)).calls
    (third,) = (await clerk.finish(second, room=5)).calls

    assert [each.request.number for each in (second, third)] == ["N-b", "LAST"]
    assert [number for number, _ in await due_of(redis)] == ["N-c@shop", "N-d@shop"]
    record = json.loads(await redis.hget(KEYS.wait_requests, "N-c@shop"))
    assert (record["state"], record.get("position")) == ("later", None)


async def test_on_the_next_day_those_go_first_who_came_first(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    clerk = await hire(Book(shelf))
    await use_up(clerk)
    for number in ("N-b", "N-a"):
        await clerk.parked(number, **of_shop(number))
    record = json.loads(await redis.hget(KEYS.wait_requests, "N-b@shop"))
    record["since"] -= 3_600_000
    await redis.hset(KEYS.wait_requests, "N-b@shop", json.dumps(record))
    await retries_are_due(redis)
    await clerk.take()

    assert [number for number, _ in await due_of(redis)] == ["N-b@shop", "N-a@shop"]
    await redis.delete(ACCOUNT_CALLS)  # as at the reset
    await due_in_order(redis)
    taken = await clerk.take()
    assert [each.request.number for each in taken.calls] == ["N-b", "N-a"]


async def due_in_order(redis: Redis) -> None:
    for nth, (number, _) in enumerate(await due_of(redis)):
        await redis.zadd(KEYS.wait_later, {number: 1 + nth})


async def test_one_that_expires_before_the_next_day_is_not_taken(
    clerk: Worker, redis: Redis
) -> None:
    await use_up(clerk)
    soon = await redis_us(redis) / 1_000_000 + 1

    told = await clerk.admit("N003", **of_shop("c"), expires_at=soon)
    recheck = {**of_shop("d"), "origin": Origin.AUTOMATIC, "expires_at": soon}

    assert told == TooLate(await resets_ms(redis) / 1000)
    assert await clerk.ended("N004", **recheck) is State.CANCELLED


async def test_a_call_for_several_numbers_counts_once_for_each_account_in_it(
    hire: Hire, redis: Redis
) -> None:
    shelf = Shelf(THREE)
    shelf.ration(shop=1, other=5)
    worker = await hire(Book(shelf))
    for number, account in (("N001", SHOP), ("N002", SHOP), ("N003", OTHER)):
        await waits(worker, number, account)

    (group,) = (await worker.take()).groups

    assert numbers_of(group) == ["N001", "N002", "N003"]
    assert await redis.hgetall(ACCOUNT_CALLS) == {"shop": "1", "other": "1"}


async def waits(worker: Worker, number: str, account: Account) -> None:
    """Have a number wait that could be called now."""
    request = asked(number, id=operation_id(account, number))
    job, call = f"job-{number}-{account}", next(worker.limiter.ids)
    assert isinstance(await worker.limiter.admit(call, request, job, full=True), Parked)


async def test_a_number_of_an_account_that_has_no_call_left_rides_with_nobody(
    hire: Hire, redis: Redis
) -> None:
    shelf = Shelf(THREE)
    shelf.ration(shop=1)
    worker = await hire(Book(shelf))
    for number, account in (("N001", MAIN), ("N002", SHOP), ("N003", MAIN)):
        await waits(worker, number, account)
    await redis.hset(ACCOUNT_CALLS, "shop", "1")

    (group,) = (await worker.take()).groups

    assert numbers_of(group) == ["N001", "N003"]
    assert [number for number, _ in await due_of(redis)] == ["N002@shop"]


async def test_what_certainly_was_not_sent_is_given_back(clerk: Worker, redis: Redis) -> None:
    call = await clerk.granted("N001", **of_shop("a"))
    await clerk.limiter.hand_back([call], 0)

    assert await redis.hgetall(ACCOUNT_CALLS) == {"shop": "0"}
    await clerk.parked("N002", **of_shop("b"))
    await clerk.parked("N003", **of_shop("c"))
    taken = await clerk.take()
    assert [each.request.number for each in taken.calls] == ["N001", "N002"]


async def test_of_a_group_each_account_gets_one_call_back(hire: Hire, redis: Redis) -> None:
    shelf = Shelf(THREE)
    shelf.ration(shop=5, other=5)
    worker = await hire(Book(shelf))
    for number, account in (("N001", SHOP), ("N002", SHOP), ("N003", OTHER)):
        await waits(worker, number, account)
    (group,) = (await worker.take()).groups

    await worker.limiter.hand_back(group, 0)

    assert await redis.hgetall(ACCOUNT_CALLS) == {"shop": "0", "other": "0"}


async def test_a_call_of_yesterday_gives_nothing_back_to_today(clerk: Worker, redis: Redis) -> None:
    call = await clerk.granted("N001", **of_shop("a"))
    record = json.loads(await redis.hget(KEYS.wait_inflight, call.id))
    record["granted"] = str(int(record["granted"]) - DAY_US)
    await redis.hset(KEYS.wait_inflight, call.id, json.dumps(record))

    await clerk.limiter.hand_back([call], 0)

    assert await redis.hgetall(ACCOUNT_CALLS) == {"shop": "1"}


async def test_a_call_whose_worker_vanished_goes_on_only_with_a_call_left(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    shelf.ration(shop=1)
    clerk = await hire(Book(shelf))
    await clerk.granted("N001", "its-job", **of_shop("a"))

    assert (await clerk.parked("N001", "its-job", **of_shop("a"))).why == "account_quota"
    assert (await clerk.take()).calls == ()
    assert await redis.hgetall(ACCOUNT_CALLS) == {"shop": "1"}


async def test_a_changed_quota_holds_at_once_for_every_worker(
    clerk: Worker, shelf: Shelf, people: AccountQuotas
) -> None:
    await clerk.granted("N001", **of_shop("a"))

    await people.set(SHOP, shelf.quotas | {SHOP: 1}, shelf.ration(shop=1))

    assert (await clerk.parked("N002", **of_shop("b"))).why == "account_quota"


@pytest.mark.parametrize("quotas", [{"shop": 3}, {}], ids=["raised", "taken back"])
async def test_with_a_higher_quota_those_go_on_who_waited_for_the_next_day(
    clerk: Worker, shelf: Shelf, people: AccountQuotas, redis: Redis, quotas: dict[str, int]
) -> None:
    await use_up(clerk)
    await clerk.parked("N003", **of_shop("c"))
    await clerk.take(claims=True)

    await people.set(SHOP, named(quotas), shelf.ration(**quotas))
    (swept,) = await clerk.limiter.sweep([LINE])

    assert swept.put_drain
    assert [each.request.number for each in (await clerk.take(claims=True)).calls] == ["N003"]
    assert await redis.exists(ACCOUNT_QUOTAS) == bool(quotas)


def named(quotas: dict[str, int]) -> dict[Account, int]:
    return {Account(account): calls for account, calls in quotas.items()}


async def test_a_redis_that_lost_all_goes_by_no_quota_before_it_knows_them_again(
    clerk: Worker, redis: Redis
) -> None:
    await redis.delete(ACCOUNT_QUOTAS)

    await use_up(clerk)

    assert (await clerk.parked("N003", **of_shop("c"))).why == "account_quota"
    assert await redis.hgetall(ACCOUNT_QUOTAS) == {"!": "1", "shop": "2"}


async def test_a_worker_that_read_older_quotas_writes_them_nowhere(
    clerk: Worker, redis: Redis
) -> None:
    await redis.set(REVISION, "7")
    names = [ACCOUNT_QUOTAS, REVISION]

    _, older = await clerk.pipeline.run("ration", names, (6, "shop", 99))
    _, newer = await clerk.pipeline.run("ration", names, (8, "shop", 9, "other", 1))

    assert (older, newer) == (0, 1)
    assert await redis.hgetall(ACCOUNT_QUOTAS) == {"!": "8", "shop": "9", "other": "1"}
    assert await redis.get(REVISION) == "8"


async def test_of_many_quotas_all_hold(clerk: Worker, redis: Redis) -> None:
    many = [each for n in range(5_000) for each in (f"a{n}", n + 1)]

    await clerk.pipeline.run("ration", [ACCOUNT_QUOTAS, REVISION], (9, *many))

    assert await redis.hlen(ACCOUNT_QUOTAS) == 5_001


async def test_of_many_who_wait_only_those_of_the_account_are_due_again(
    clerk: Worker, people: AccountQuotas, shelf: Shelf, redis: Redis
) -> None:
    await use_up(clerk)
    await clerk.parked("N003", **of_shop("c"))
    resets = await resets_ms(redis)
    crowd = {f"N{n}@{'shop' if n % 2 else 'other'}": resets + n % 100 for n in range(2_500)}
    await redis.zadd(KEYS.wait_later, crowd)
    now = await redis_us(redis) // 1000

    await people.set(SHOP, {}, shelf.ration())

    found = await due_of(redis)
    due = {number for number, at in found if at < resets}
    assert due == {"N003@shop", *(number for number in crowd if number.endswith("@shop"))}
    assert all(now <= at for _, at in found)


async def test_wake_says_with_what_to_ask_again(clerk: Worker, redis: Redis) -> None:
    assert (await clerk.raw("wake", "shop", 0))[1:] == [0, ""]
    resets = await resets_ms(redis)
    await redis.zadd(KEYS.wait_later, {f"N{n:04}@other": resets for n in range(999)})
    await redis.zadd(KEYS.wait_later, {"A@shop": resets, "Z@shop": resets})

    first = await clerk.raw("wake", "shop", 0)
    second = await clerk.raw("wake", "shop", first[2])

    assert [first[1:], second[1:]] == [[1, "999"], [1, ""]]


async def test_place_tells_of_the_quota_and_until_when_it_keeps_a_number(
    clerk: Worker, shelf: Shelf, redis: Redis
) -> None:
    book = Book(shelf)
    await book.learn()
    view = View(redis, book.rules_of, book)
    await redis.zadd("tracking:workers", {"{}": 1e15})
    await use_up(clerk)
    await clerk.parked("N003", **of_shop("c"))

    place = await view.place(LINE, Number("N003@shop"))
    line = await view.line(LINE)

    left = (await resets_ms(redis) - await redis_us(redis) // 1000) / 1000
    assert place is not None
    assert (place.list, place.bound_by, line.bound_by) == ("later", *["account_quota"] * 2)
    assert place.until_seconds == pytest.approx(left, abs=5)
    assert place.eta_seconds == pytest.approx(left, abs=15)
    assert line.until_seconds == pytest.approx(left, abs=5)


async def test_a_number_in_line_of_an_account_without_calls_left_is_kept_by_that(
    hire: Hire, shelf: Shelf, redis: Redis
) -> None:
    book = Book(with_rules(shelf, concurrent=1))
    clerk = await hire(book)
    await redis.zadd("tracking:workers", {"{}": 1e15})
    await clerk.granted("BUSY")
    await clerk.parked("N001", **of_shop("a"))
    await clerk.parked("N002")
    await redis.hset(ACCOUNT_CALLS, "shop", "2")

    view = View(redis, book.rules_of, book)
    told = [await view.place(LINE, Number(each)) for each in ("N001@shop", "N002")]

    assert [each and each.bound_by for each in told] == ["account_quota", "concurrency"]


async def test_calls_of_webhooks_count_for_no_account(hire: Hire, redis: Redis) -> None:
    rules = replace(FAST, kind=DELIVERY)
    shelf = Shelf(rules)
    shelf.ration(shop=1)
    worker = await hire(Book(shelf))

    for number in ("N001", "N002"):
        await worker.granted(number, **of_shop(number))

    assert not await redis.exists(ACCOUNT_CALLS)


async def test_where_nobody_has_a_quota_nothing_is_asked_for_one(hire: Hire, redis: Redis) -> None:
    worker = await hire(FAST)
    heard = list[str]()
    async with redis.monitor() as monitor:
        call = await worker.granted("N001", **of_shop("a"))
        await worker.finish(call)
        await redis.ping()
        while (each := (await monitor.next_command())["command"]).upper() != "PING":
            heard.append(each)

    assert any("HSET" in each for each in heard)
    assert not any("account_" in each for each in heard)


async def test_who_looks_is_told_how_many_calls_are_used(
    clerk: Worker, people: AccountQuotas
) -> None:
    assert await people.calls_today() == {}

    await use_up(clerk, calls=1)

    assert await people.calls_today() == {SHOP: 1}
