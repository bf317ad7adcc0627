"""Lines that are windows of another store: what they hold, and calls that had nothing to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from limits_bench import KEYS, USPS, Hire, Worker, again_in, asked
from redis.asyncio import Redis

from limits.rules import Rules
from limits.window import Windows
from tracking.call import Full, Granted, Parked, Setback, Verdict
from tracking.line import DELIVERY, courier_line
from tracking.operation import State

LINE = courier_line(USPS)
PLAIN = Rules(concurrent=1, per_second=1_000, max_waiting=3, kind=DELIVERY)
SKIPPED = Verdict(State.SUCCESS, {}, answered=False, unsent=True)
DOWN = Setback("destination_down", brake=DELIVERY.brakes["destination_down"])
FAILED = Verdict(State.ERROR, {}, answered=False, setback=DOWN)


@pytest.fixture
async def window(hire: Hire) -> Worker:
    return await hire(PLAIN)


@pytest.fixture
async def windows(redis: Redis) -> Windows:
    return Windows(redis)


async def test_a_window_holds_all_that_wait_are_repeated_and_run(
    window: Worker, windows: Windows
) -> None:
    later = await window.granted("LATER")
    await window.limiter.retry(later, again_in(60.0), 0)
    runs = await window.granted("RUNS", job="job")
    await window.parked("WAITS")

    assert (await windows.look(LINE)).numbers == {"LATER", "RUNS", "WAITS"}
    assert await windows.counts([LINE]) == [3]
    assert await window.admit("MORE") == Full(3)
    await window.finish(runs)
    assert isinstance(await window.admit("MORE"), Granted | Parked)


async def test_a_call_that_had_nothing_to_do_gives_its_start_back(hire: Hire) -> None:
    slow = await hire(replace(PLAIN, per_second=1))
    await slow.finish(await slow.granted("N001"), SKIPPED)

    assert isinstance(await slow.admit("N002"), Granted)


async def test_a_call_that_had_nothing_to_do_tells_nothing_of_its_line(
    window: Worker, redis: Redis, windows: Windows
) -> None:
    await redis.set(KEYS.calls_brake, '{"failed":["N009"],"why":"destination_down","pauses":1}')

    await window.finish(await window.granted("N001"), SKIPPED)

    assert (await windows.look(LINE)).probes
    assert await windows.trying([LINE]) == [LINE]


async def test_a_line_that_failed_is_tried_once_it_rests_no_more(
    hire: Hire, redis: Redis, windows: Windows
) -> None:
    worker = await hire(replace(PLAIN, concurrent=50, max_waiting=1_000))
    calls = [await worker.granted(f"N{number:03}") for number in range(21)]
    assert await windows.trying([LINE]) == []
    for call in calls[:20]:
        await worker.finish(call, FAILED)

    assert not (await windows.look(LINE)).probes
    assert 299_000 < await redis.pttl(KEYS.calls_paused) <= 300_000
    await redis.delete(KEYS.calls_paused)
    assert (await windows.look(LINE)).probes
    await worker.finish(calls[20])
    assert not (await windows.look(LINE)).probes


async def test_a_request_is_repeated_with_the_fields_of_its_setback(
    window: Worker, redis: Redis
) -> None:
    request = asked("N001", fields={"round": "1", "made": "0"})
    admission = await window.limiter.admit("first", request, "job")
    assert isinstance(admission, Granted)
    setback = replace(again_in(60.0), fields={"round": "1", "made": "1"})
    await window.limiter.retry(admission.call, setback, 0)
    await redis.zadd(KEYS.wait_later, {"N001": 1})

    assert (await window.taken()).request.fields == {"round": "1", "made": "1"}
