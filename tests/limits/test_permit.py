"""A permit: one request, not before its instant; the report of its send on its way to Redis.

A request leaves not long after its instant and is stamped when it has left. A measured send is
carried to Redis once, and put back when the way is cut.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
from limits_bench import KEYS, USPS, Hire, Worker, a_second_goes_by, redis_us, sent, until
from redis.asyncio import Redis

from devstack.stack import Stack
from limits.clock import Clock
from limits.permit import CallPermit, Reports
from limits.rules import LATE_SECONDS
from tracking.errors import LimitsDown, NotStarted
from tracking.request import Slug


class Gate:
    """A permit on a clock that is Redis' own, and what it reported."""

    def __init__(self, at: float, deadline: float = 30.0, unsure: float = 0.0) -> None:
        """`at` and `deadline` in seconds from now; Redis' clock may be `unsure` seconds behind."""
        now = time.monotonic()
        self.clock = Clock()
        self.clock.observe(now, round(now * 1_000_000), now + unsure)
        self.reports: list[tuple[str, int]] = []
        self.at = now + at
        self.permit = CallPermit("c", round(self.at * 1_000_000), now + deadline, self.clock, self)

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


DPD = Slug("dpd-uk")


class Carrier:
    """Carries reports as a script does; a list of what arrived."""

    def __init__(self) -> None:
        self.arrived: list[tuple[Slug, list[str | int]]] = []
        self.cut = 0
        self.reports = Reports(self.send)

    async def send(self, slug: Slug) -> None:
        taken = self.reports.take(slug)
        await asyncio.sleep(0)
        if self.cut:
            self.cut -= 1
            self.reports.put_back(slug, taken)
        else:
            self.arrived.append((slug, taken))

    async def has(self, count: int) -> None:
        async def arrived() -> bool:
            return len(self.arrived) >= count

        await until(arrived)


async def test_reports_of_a_slug_travel_together() -> None:
    carrier = Carrier()
    for start, send_us in (("a", 1), ("b", 2)):
        carrier.reports.add(USPS, start, send_us)
    carrier.reports.add(DPD, "c", 3)

    await carrier.has(2)

    assert carrier.arrived == [(USPS, ["a", 1, "b", 2]), (DPD, ["c", 3])]
    assert carrier.reports.take(USPS) == []


async def test_what_a_script_took_along_is_not_sent_again() -> None:
    carrier = Carrier()
    carrier.reports.add(USPS, "a", 1)
    carrier.reports.add(DPD, "b", 2)

    assert carrier.reports.take(USPS) == ["a", 1]
    await carrier.has(1)

    assert carrier.arrived == [(DPD, ["b", 2])]


async def test_what_did_not_arrive_is_put_back_before_what_came_later() -> None:
    carrier = Carrier()
    carrier.reports.add(USPS, "a", 1)
    taken = carrier.reports.take(USPS)
    carrier.reports.add(USPS, "b", 2)

    carrier.reports.put_back(USPS, taken)

    assert carrier.reports.take(USPS) == ["a", 1, "b", 2]


async def test_reports_are_carried_again_until_they_arrive() -> None:
    carrier = Carrier()
    carrier.cut = 2
    carrier.reports.add(USPS, "a", 1)

    await carrier.has(1)

    assert carrier.arrived == [(USPS, ["a", 1])]


async def test_a_later_report_finds_a_carrier_again() -> None:
    carrier = Carrier()
    carrier.reports.add(USPS, "a", 1)
    await carrier.has(1)

    carrier.reports.add(USPS, "b", 2)
    await carrier.has(2)

    assert carrier.arrived[1] == (USPS, ["b", 2])


async def test_closing_leaves_nothing_under_way() -> None:
    carrier = Carrier()
    carrier.reports.add(USPS, "a", 1)

    await carrier.reports.close()

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_send_measured_while_redis_was_away_is_reported_when_it_is_back(
    hire: Hire, stack: Stack, redis: Redis
) -> None:
    if not stack.redis.ours:
        pytest.skip("this Redis was not started here, so it is left alone")
    worker = await hire()
    call = await sent(await worker.granted())
    unreported = await redis.zscore(KEYS.call_starts, call.id)
    stack.redis.kill()
    with pytest.raises(LimitsDown):
        await worker.take()

    stack.redis.start()
    await redis.connection_pool.disconnect()  # what looks behind the scenes was cut off as well
    await worker.take()

    free = await redis.zscore(KEYS.call_starts, call.id)
    assert free is None or free < unreported


async def test_a_defect_while_a_report_is_sent_is_logged_and_all_arrive_with_the_next_one(
    written: Callable[[], list[dict[str, Any]]],
) -> None:
    carrier = Carrier()
    breaks = [KeyError("no such member")]

    async def send(slug: Slug) -> None:
        if breaks:
            raise breaks.pop()
        await carrier.send(slug)

    carrier.reports = Reports(send)
    carrier.reports.add(USPS, "c1", 1)

    async def broken() -> bool:
        return not breaks

    await until(broken)
    await asyncio.sleep(0)
    carrier.reports.add(DPD, "c2", 2)
    await carrier.has(2)

    gc.collect()
    (line,) = written()
    assert (line["event"], line["logger"]) == ("library message", "asyncio")
    assert "KeyError" in line["traceback"]
    assert carrier.arrived == [(USPS, ["c1", 1]), (DPD, ["c2", 2])]
