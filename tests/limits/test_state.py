"""The states of an operation (lua/lib/state.lua) follow the table; an id is that of one parcel."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from held import look, since
from limits_bench import (
    ANSWERED,
    DEAD,
    KEYS,
    NO_PLACES,
    USPS,
    Hire,
    Worker,
    again_in,
    counted,
    state,
    status,
    the_lease_ends,
)
from redis.asyncio import Redis

from limits.admin.view import View
from limits.rules import Rules
from tracking.call import Full, Granted, IdConflict, Parked, TooLate
from tracking.request import Slug, anonymous_in


def but_for_counts(held: dict[str, Any]) -> dict[str, Any]:
    counts = ("tracking:counts:", "tracking:stats")
    return {name: value for name, value in held.items() if not name.startswith(counts)}


@pytest.mark.parametrize("stands", ["waits", "runs", "ended", "cancelled"])
@pytest.mark.parametrize(("slug", "number"), [("usps", "N002"), ("dpd-uk", "N001")])
async def test_an_id_that_is_known_for_one_parcel_is_refused_for_another(
    worker: Worker, redis: Redis, stands: str, slug: str, number: str
) -> None:
    call = await worker.granted("N001", id="order-1042" if stands in {"runs", "ended"} else None)
    if stands == "ended":
        await worker.finish(call)
    elif stands != "runs":
        await worker.parked("N001", id="order-1042")
    if stands == "cancelled":
        await worker.raw("cancel", "N001", "order-1042", NO_PLACES)
    held = await look(redis)

    assert await worker.admit(number, id="order-1042", slug=Slug(slug)) == IdConflict("usps:N001")

    before, after = await since(redis, held)
    assert but_for_counts(after) == but_for_counts(before)
    assert await counted(redis, "id_reused", slug=slug) == (1,)


async def test_an_id_whose_end_is_not_known_any_more_is_new_again(
    worker: Worker, redis: Redis
) -> None:
    await worker.finish(await worker.granted("N001", id="order-1042"))

    await redis.delete(f"{KEYS.status}order-1042")

    assert isinstance(await worker.admit("N002", id="order-1042"), Granted)
    assert await counted(redis, "id_reused") == (0,)


async def test_an_id_that_is_free_again_ends_with_its_new_parcel_only(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    """The record of a number names an id until its turn comes, also of one that was cancelled."""
    await busy.parked("N001")
    await busy.parked("N001", id="order-1042")
    await busy.raw("cancel", "N001", "order-1042", NO_PLACES)
    await redis.delete(f"{KEYS.status}order-1042")
    await busy.parked("N002", id="order-1042")

    await free.finish(await free.taken())

    assert await state(redis, "order-1042") == "WAITING"
    await free.finish(await free.taken())
    assert await state(redis, "order-1042") == "SUCCESS"
    assert await counted(redis, "open") == (0,)


async def test_what_has_not_ended_is_kept_for_as_long_as_it_takes(
    worker: Worker, redis: Redis
) -> None:
    await worker.granted("N001", id="runs")
    await worker.parked("N001", id="waits")

    assert await redis.ttl(f"{KEYS.status}runs") == await redis.ttl(f"{KEYS.status}waits") == -1


async def test_what_a_door_wrote_is_as_good_as_nothing(worker: Worker, redis: Redis) -> None:
    queued = {"status": "QUEUED", "tracking": "dpd-uk:N009"}
    await redis.set(f"{KEYS.status}op-1", json.dumps(queued), ex=60, nx=True)
    assert (await View(redis, lambda _: worker.rules).operation("op-1") or {})["status"] == "QUEUED"

    call = await worker.granted("N001", id="op-1")

    assert await state(redis, "op-1") == "RUNNING"
    await worker.finish(call)
    assert await counted(redis, "SUCCESS", "id_reused", "open") == (1, 0, 0)


async def test_a_move_that_the_table_does_not_allow_is_refused(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    told = await status(redis, "op-1")
    assert told is not None
    tampered = json.dumps(told | {"status": "RUNNING", "startedAt": None})
    await redis.set(f"{KEYS.status}op-1", tampered)

    call = await free.taken()

    assert await redis.get(f"{KEYS.status}op-1") == tampered
    await free.finish(call)
    assert await state(redis, "op-1") == "SUCCESS"


async def test_a_state_that_nobody_knows_goes_nowhere(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", id="op-1")
    told = await status(redis, "op-1")
    assert told is not None
    await redis.set(f"{KEYS.status}op-1", json.dumps(told | {"status": "PAUSED"}))

    await free.finish(await free.taken())

    assert await state(redis, "op-1") == "PAUSED"
    assert await counted(redis, "SUCCESS") == (0,)


async def test_no_move_is_refused_on_the_longest_way(worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="op-1", job="job-1")
    call = await worker.granted("N001", id="op-1", job="job-1")
    await the_lease_ends(redis, call)
    await worker.raw("sweep", "s")
    (call,) = (await worker.limiter.retry(await worker.taken(), again_in(0.0), 1)).calls
    (call,) = (await worker.limiter.hand_back([call], 1)).calls
    await worker.finish(call, DEAD)

    assert await counted(redis, "ERROR", "open") == (1, 0)


async def test_the_state_of_any_id_is_one_round_trip_however_many_lines_are_busy(
    busy: Worker, redis: Redis
) -> None:
    await redis.sadd(KEYS.lines, *(f"courier-{n}" for n in range(1_200)))
    await busy.parked("N001", id="op-1")
    await busy.parked("N002", job="job-2")
    view = View(redis, lambda _: busy.rules)
    ids = ["op-1", "usps:BUSY:job-of-busy", "usps:N002:job-2", "usps:N002:job-3", "nobody"]
    before = int((await redis.info("stats"))["total_reads_processed"])

    found = await view.operations(ids)

    after = int((await redis.info("stats"))["total_reads_processed"])
    assert after - before == 2, "the second is our own question"
    assert {each: told["status"] for each, told in found.items()} == {
        "op-1": "WAITING",
        "usps:BUSY:job-of-busy": "RUNNING",
        "usps:N002:job-2": "WAITING",
    }
    assert {told["tracking"] for told in found.values()} == {"usps:N001", "usps:N002", "usps:BUSY"}


async def test_requests_without_an_id_are_followed_to_their_end(
    worker: Worker, redis: Redis
) -> None:
    view = View(redis, lambda _: worker.rules)
    call = await worker.granted("N001", job="job-1")
    (identity,) = call.operations
    assert identity == f"{USPS}:N001:job-1"
    assert await state(redis, identity) == "RUNNING"

    await worker.limiter.retry(call, again_in(60.0), 0)
    assert await redis.exists(f"{KEYS.status}{identity}") == 0
    assert (await view.operation(identity) or {})["status"] == "WAITING"

    await redis.zadd(KEYS.wait_later, {"N001": 1})
    await worker.finish(await worker.taken(), ANSWERED)
    assert (await view.operation(identity) or {})["status"] == "SUCCESS"


@pytest.mark.parametrize(
    ("operation", "parts"),
    [
        ("usps:N001:job-1", ("usps", "N001", "job-1")),
        ("usps:A B/1.2:hand-9", ("usps", "A B/1.2", "hand-9")),
        ("order-1042", None),
        ("order:1042", None),
        ("a:b:c:d", None),
        ("::", None),
    ],
)
def test_the_id_of_requests_without_one_names_their_parcel(
    operation: str, parts: tuple[str, str, str] | None
) -> None:
    assert anonymous_in(operation) == parts


async def cancelled(worker: Worker, operation: str, number: str = "N001") -> list[Any]:
    """What comes of a cancel by id."""
    return (await worker.raw("cancel", number, operation, NO_PLACES))[1:]


async def test_requests_without_an_id_are_cancelled_by_the_one_they_are_listed_under(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    await busy.parked("N001", job="job-1")
    await busy.parked("N001", id="op-1")
    await busy.parked("N002", job="job-2")

    assert await cancelled(busy, "usps:N001:job-1") == ["cancelled", 1, 0]
    assert await cancelled(busy, "usps:N002:job-2", "N002") == ["cancelled", 1, 0]

    assert await cancelled(busy, "usps:N001:job-1") == ["ended", "CANCELLED"]
    assert await cancelled(busy, "usps:N003:job-3", "N003") == ["unknown"]
    assert await redis.hkeys(KEYS.wait_requests) == ["N001"]
    assert (await free.taken()).operations == ("op-1",)
    assert (await free.take()).calls == ()
    assert await counted(redis, "CANCELLED") == (2,)


async def test_what_requests_without_an_id_said_is_known_after_they_waited(
    busy: Worker, free: Worker, redis: Redis
) -> None:
    more = {"put_at": 1_790_000_000.25, "resend_of": "op-0"}
    await busy.parked("N001", job="job-1", **more)

    await free.finish(await free.taken())

    told = json.loads(await redis.get(f"{KEYS.status}usps:N001:job-1") or "")
    assert (told["put"], told["resend_of"]) == (1_790_000_000_250, "op-0")
    assert (told["status"], told["anonymous"]) == ("SUCCESS", True)


async def test_requests_without_an_id_are_as_old_as_they_are_beside_older_ones(
    worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    runs = json.loads(await redis.hget(KEYS.wait_inflight, call.id) or "")
    await asyncio.sleep(0.002)
    await worker.parked("N001")
    (waits,) = map(json.loads, await redis.hvals(KEYS.wait_requests))

    await worker.limiter.hand_back([call], 0)

    (both,) = map(json.loads, await redis.hvals(KEYS.wait_requests))
    assert both["since"] == runs["since"] < waits["since"] == both["anon"]["at"]


async def test_the_same_id_again_is_no_other_operation(busy: Worker, redis: Redis) -> None:
    more = {"resend_of": "op-0", "webhook": "shop"}
    await busy.parked("N001", id="op-1", put_at=1_790_000_000.25, cancel_on_reply=True, **more)

    assert await busy.admit("N001", id="op-1") == Parked("queue")

    assert await counted(redis, "open") == (1,)
    told = await View(redis, lambda _: busy.rules).operation("op-1")
    assert told is not None
    assert {name: told[name] for name in more} == more
    assert told["cancels"] is True
    assert json.loads(await redis.get(f"{KEYS.status}op-1"))["put"] == 1_790_000_000_250


async def test_what_is_refused_is_not_queued_any_more(hire: Hire, redis: Redis) -> None:
    worker = await hire(Rules(per_second=1, max_waiting=1))
    await worker.granted("N000")
    for name in ("late", "full"):
        queued = json.dumps({"status": "QUEUED", "tracking": "usps:N001"})
        await redis.set(f"{KEYS.status}{name}", queued)

    late = await worker.admit("N001", id="late", expires_at=time.time() + 0.5)
    await worker.parked("N002")
    full = await worker.admit("N001", id="full")

    assert (type(late), type(full)) == (TooLate, Full)
    assert await View(redis, lambda _: worker.rules).operations(["late", "full"]) == {}
    assert not await redis.set(f"{KEYS.status}late", queued, nx=True), "a door is slow to note it"
    assert 0 < await redis.ttl(f"{KEYS.status}late") <= 10
