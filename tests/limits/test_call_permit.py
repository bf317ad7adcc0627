"""A permit: one request, not before its instant, not long after it, stamped when it has left."""

from __future__ import annotations

import time

import pytest
from limits_bench import KEYS, Worker, a_second_goes_by, redis_us, until
from redis.asyncio import Redis

from limits.clock import Clock
from limits.permit import CallPermit
from limits.rules import LATE_SECONDS
from tracking.errors import NotStarted


class Gate:
    """A permit on a clock that is Redis' own, and what it reported."""

    def __init__(self, at: float, deadline: float = 30.0, unsure: float = 0.0) -> None:
        """`at` and `deadline` in seconds from now; Redis' clock may be `unsure` seconds behind."""
        now = time.monotonic()
        self.clock = Clock()
        self.clock.observe(now, round(now * 1_000_000), now + unsure)
        self.reports: list[tuple[str, int]] = []
        self.at = now + at
        self.permit = CallPermit(
            "c",
            round(self.at * 1_000_000),
            now + deadline,
            self.clock,
            self,
        )

    def sent(self, start_id: str, send_us: int) -> None:
        self.reports.append((start_id, send_us))

    def answered(self, seconds: float) -> None:
        self.took = seconds

    async def again(self, call_id: str, start_id: str) -> int:
        raise NotStarted(f"no lane for {start_id} of {call_id}")


async def test_a_request_is_held_until_its_instant() -> None:
    gate = Gate(at=0.12)

    await gate.permit.before_send()

    assert time.monotonic() >= gate.at


async def test_a_request_is_held_until_its_instant_has_certainly_come() -> None:
    gate = Gate(at=0.05, unsure=0.1)

    await gate.permit.before_send()

    assert time.monotonic() >= gate.at + 0.1


async def test_a_grant_from_before_a_step_of_the_clock_is_not_used() -> None:
    """A clock that stepped back reaches its instant later, when its lane has gone to others."""
    gate = Gate(at=0.0)
    now = time.monotonic()
    gate.clock.observe(now, round((now - 3.0) * 1_000_000), now)

    with pytest.raises(NotStarted, match="stepped"):
        await gate.permit.before_send()

    assert not gate.permit.started


async def test_a_send_is_stamped_with_the_latest_instant_it_can_have_had() -> None:
    gate = Gate(at=-0.2, unsure=0.1)
    await gate.permit.before_send()

    before = time.monotonic()
    gate.permit.after_send()

    ((_, send_us),) = gate.reports
    assert send_us / 1_000_000 + 1e-5 >= before


async def test_the_send_is_reported_with_its_own_instant() -> None:
    gate = Gate(at=0.0)

    before = time.monotonic()
    await gate.permit.before_send()
    gate.permit.after_send()

    ((start_id, send_us),) = gate.reports
    assert start_id == "c"
    assert before <= send_us / 1_000_000 + 1e-5 <= time.monotonic() + 1e-5


@pytest.mark.parametrize(
    ("at", "deadline"), [(-LATE_SECONDS - 0.1, 30.0), (0.0, -0.1)], ids=["late", "deadline"]
)
async def test_a_grant_that_came_too_late_is_not_used(at: float, deadline: float) -> None:
    gate = Gate(at, deadline)

    with pytest.raises(NotStarted):
        await gate.permit.before_send()

    assert not gate.permit.started
    assert gate.reports == []


async def test_a_grant_that_is_a_little_late_is_used() -> None:
    gate = Gate(at=-LATE_SECONDS / 2)

    await gate.permit.before_send()

    assert gate.permit.started


async def test_a_second_request_on_one_grant_is_refused_and_the_first_stays_spent() -> None:
    """As when the HTTP library sends a request again by itself."""
    gate = Gate(at=0.0)
    await gate.permit.before_send()

    with pytest.raises(NotStarted, match="used before"):
        await gate.permit.before_send()

    assert gate.permit.started


async def test_a_permit_that_gets_no_further_start_is_for_one_request() -> None:
    with pytest.raises(NotStarted, match="no lane for c#1 of c"):
        await Gate(at=0.0).permit.again()


async def test_a_permit_is_started_once_a_byte_may_have_left(worker: Worker) -> None:
    permit = (await worker.granted()).permit
    fresh = permit.started

    await permit.before_send()

    assert (fresh, permit.started) == (False, True)


async def test_the_deadline_is_the_call_timeout_from_before_the_script_was_sent(
    worker: Worker,
) -> None:
    before = time.monotonic()
    permit = (await worker.granted()).permit

    assert before + 30.0 <= permit.deadline <= time.monotonic() + 30.0


async def test_every_further_request_has_a_start_of_its_own(worker: Worker, redis: Redis) -> None:
    call = await worker.granted()
    for _ in range(2):
        await call.permit.before_send()
        call.permit.after_send()
        await call.permit.again()
    await call.permit.before_send()
    call.permit.after_send()

    starts = await redis.zrange(KEYS.call_starts, 0, -1)

    assert set(starts) == {call.id, f"{call.id}#2", f"{call.id}#3"}
    assert await redis.zcard(KEYS.calls_leases) == 1


async def test_a_further_request_waits_for_a_free_lane(usps: Worker, redis: Redis) -> None:
    call = await usps.granted("N001")
    await call.permit.before_send()
    call.permit.after_send()
    await usps.granted("N002")
    ((_, free_us), _) = await redis.zrange(KEYS.call_starts, 0, -1, withscores=True)

    await call.permit.again()
    await call.permit.before_send()

    assert await redis_us(redis) >= free_us


async def test_a_further_request_needs_the_lease(worker: Worker, redis: Redis) -> None:
    call = await worker.granted()
    await call.permit.before_send()
    await redis.zrem(KEYS.calls_leases, call.id)

    with pytest.raises(NotStarted, match="lease"):
        await call.permit.again()


async def test_a_report_travels_by_itself_when_no_script_is_due(usps: Worker, redis: Redis) -> None:
    call = await usps.granted()
    unreported = await redis.zscore(KEYS.call_starts, call.id)
    await call.permit.before_send()
    call.permit.after_send()

    async def reported() -> bool:
        free = await redis.zscore(KEYS.call_starts, call.id)
        return free is not None and free < unreported

    await until(reported, seconds=5.0)


async def test_a_report_travels_with_the_next_script_of_its_slug(
    usps: Worker, redis: Redis
) -> None:
    call = await usps.granted()
    unreported = await redis.zscore(KEYS.call_starts, call.id)
    await call.permit.before_send()
    call.permit.after_send()

    await usps.take()

    assert await redis.zscore(KEYS.call_starts, call.id) < unreported


async def test_lanes_are_told_apart_by_start_and_not_by_number(usps: Worker, redis: Redis) -> None:
    first = await usps.granted("N001")
    turn = await usps.finish(first)
    await a_second_goes_by(redis)
    second = await usps.granted("N001", max_age=0.0)

    assert turn.calls == ()
    assert second.id != first.id
