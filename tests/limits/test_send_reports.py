"""Measured sends on their way back to Redis: carried once, put back when the way is cut."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from limits_bench import KEYS, USPS, Hire, sent, until
from redis.asyncio import Redis

from devstack.stack import Stack
from limits.permit import Reports
from tracking.errors import LimitsDown
from tracking.request import Slug

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
