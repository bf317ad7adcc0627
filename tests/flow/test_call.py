"""Calls (flow/call.py): the room for them, and their deadlines.

The bound of the room holds, nothing of it is lost, and all slugs get their turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from flow_ports import slots_for

from service.worker.flow.tasks import CallSlots, Deadlines
from tracking.call import NO_ROOM
from tracking.line import Line

USPS, UPS, DHL = Line("usps"), Line("ups"), Line("dhl")
ONE, TWO = Line("~one"), Line("~two")
"""Lines that yield."""


async def by_another(work: Callable[[], object]) -> object:
    """Have a task of its own do something, and end."""

    async def do() -> object:
        return work()

    return await asyncio.create_task(do())


async def holding(slots: CallSlots, places: int, line: Line = USPS) -> asyncio.Task[None]:
    """A task that has so many places, until it is cancelled."""
    taken = asyncio.Event()

    async def hold() -> None:
        assert slots.reserve(places, line) == places
        taken.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await taken.wait()
    return task


async def end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await asyncio.sleep(0)  # what was to be told of the end is told in the next turn of the loop


async def test_no_more_places_are_given_than_there_are() -> None:
    slots = slots_for(5)

    first = await holding(slots, 3)

    assert slots.reserve(3, USPS) == 2
    assert slots.taken == 5
    await end(first)


async def test_a_task_that_asks_again_gets_what_it_lacks() -> None:
    slots = slots_for(5)
    slots.reserve(2, USPS)

    assert slots.reserve(4, USPS) == 4
    assert slots.taken == 4


async def test_a_full_process_has_no_room_and_one_that_stops_none_any_more() -> None:
    slots = slots_for(1)
    busy = await holding(slots, 1)

    assert slots.reserve(1, USPS) == NO_ROOM
    slots.stop()

    assert (slots.reserve(1, USPS), slots.reserve_for_next(USPS)) == (0, 0)
    await end(busy)


async def test_what_a_task_leaves_is_for_others() -> None:
    slots = slots_for(5)
    slots.reserve(5, USPS)

    slots.give_back()

    assert await by_another(lambda: slots.reserve(9, USPS)) == 5


async def fails(_: CallSlots) -> None:
    raise ZeroDivisionError


async def waits(_: CallSlots) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("ends", [fails, waits])
async def test_the_places_of_a_task_come_back_however_it_ends(
    ends: Callable[[CallSlots], Awaitable[None]],
) -> None:
    slots = slots_for(5)

    async def take() -> None:
        slots.reserve(3, USPS)
        await ends(slots)

    task = asyncio.create_task(take())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)

    assert slots.taken == 0


async def test_a_call_goes_on_with_the_place_of_the_one_that_started_it() -> None:
    slots = slots_for(2)
    slots.reserve(2, USPS)
    calls = [asyncio.create_task(waits(slots)) for _ in range(2)]

    for each in calls:
        slots.transfer(each)
    slots.give_back()

    assert slots.taken == 2
    await end(*calls)
    assert slots.taken == 0


async def test_a_call_that_ends_may_be_followed_by_two() -> None:
    slots = slots_for(2)
    slots.reserve(1, USPS)

    assert slots.reserve_for_next(USPS) == 2


async def test_a_call_that_ends_in_a_full_process_is_followed_by_one() -> None:
    slots = slots_for(2)
    other = await holding(slots, 1)
    slots.reserve(1, USPS)

    assert slots.reserve_for_next(USPS) == 1
    await end(other)


async def test_while_a_slug_stands_in_line_nobody_else_gets_a_place() -> None:
    slots = slots_for(2)
    slots.reserve(1, USPS)
    slots.waiting.add(USPS)

    assert await by_another(lambda: slots.reserve(1, USPS)) == NO_ROOM
    assert slots.reserve_for_next(USPS) == NO_ROOM, "its place is for the slug that waits"


async def test_places_go_to_slugs_in_the_order_in_which_they_came() -> None:
    slots = slots_for(1)
    busy = await holding(slots, 1)
    for slug in (USPS, UPS, DHL):
        slots.waiting.add(slug)
    slots.waiting.leave(UPS)
    assert slots.next_waiting_line() is None

    await end(busy)

    assert slots.next_waiting_line() == USPS
    called_in = await holding(slots_for(1), 1)
    slots.assign(called_in, USPS)
    assert slots.next_waiting_line() is None, "there was one place"
    await end(called_in)
    assert slots.next_waiting_line() == DHL


async def test_a_slug_that_is_called_in_gets_what_is_free_of_what_it_wants() -> None:
    slots = slots_for(3)
    two = await holding(slots_for(1), 1)
    slots.assign(two, USPS, 2)
    one = await holding(slots_for(1), 1)
    slots.assign(one, USPS, 2)

    assert slots.taken == 3
    await end(two)
    assert slots.taken == 1
    await end(one)


async def test_a_slug_stands_in_line_once() -> None:
    slots = slots_for(1)

    assert (slots.waiting.add(USPS), slots.waiting.add(USPS)) == (True, False)


async def test_lines_that_yield_have_half_of_the_places_at_most() -> None:
    slots = slots_for(10)

    one = await holding(slots, 3, ONE)
    assert await by_another(lambda: slots.reserve(9, TWO)) == 2
    two = await holding(slots, 2, TWO)
    assert await by_another(lambda: slots.reserve(1, ONE)) == NO_ROOM
    assert await by_another(lambda: slots.reserve(9, USPS)) == 5

    await end(one, two)
    assert await by_another(lambda: slots.reserve(9, ONE)) == 5


async def test_a_call_that_follows_another_one_counts_for_the_same_half() -> None:
    slots = slots_for(4)
    carried = asyncio.Event()

    async def start_a_call() -> asyncio.Task[bool]:
        slots.reserve(1, ONE)
        call = asyncio.create_task(carried.wait())
        slots.transfer(call)
        return call

    calls = [await asyncio.create_task(start_a_call()) for _ in "12"]

    assert await by_another(lambda: slots.reserve(1, TWO)) == NO_ROOM
    carried.set()
    await asyncio.gather(*calls)
    await asyncio.sleep(0)
    assert await by_another(lambda: slots.reserve(4, TWO)) == 2


async def test_a_line_that_yields_and_waits_for_its_half_holds_up_no_other() -> None:
    slots = slots_for(4)
    one = await holding(slots, 2, ONE)
    slots.waiting.add(TWO)

    assert slots.next_waiting_line() is None
    assert await by_another(lambda: slots.reserve(1, USPS)) == 1

    await end(one)
    assert await by_another(lambda: slots.reserve(1, USPS)) == NO_ROOM, "its turn has come"
    assert slots.next_waiting_line() == TWO


async def test_lines_of_both_kinds_get_their_turns_in_the_order_in_which_they_came() -> None:
    slots = slots_for(4)
    for line in (USPS, ONE, UPS, TWO):
        slots.waiting.add(line)

    called = [slots.next_waiting_line() for _ in range(5)]

    assert called == [USPS, ONE, UPS, TWO, None]


async def test_each_free_place_wakes_who_calls_lines_in() -> None:
    slots, told = slots_for(1), list[str]()
    slots.waiting.wake = lambda: told.append("free")
    busy = await holding(slots, 1)

    slots.waiting.add(USPS)
    assert told == ["free"], "there may be room already"
    await end(busy)

    assert told == ["free"] * 2


async def after(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "answer"


async def test_work_that_ends_in_time_gives_its_result() -> None:
    assert await Deadlines().hold(time.monotonic() + 5, after(0.0)) == "answer"


async def test_work_beyond_its_deadline_ends_with_a_timeout() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await Deadlines().hold(began + 0.2, after(60.0))

    assert 0.2 <= time.monotonic() - began < 5


async def test_each_call_has_its_own_deadline() -> None:
    deadlines, now = Deadlines(), time.monotonic()
    ends = await asyncio.gather(
        deadlines.hold(now + 0.1, after(60.0)),
        deadlines.hold(now + 60, after(0.5)),
        deadlines.hold(now + 0.3, after(60.0)),
        return_exceptions=True,
    )

    assert [type(end) for end in ends] == [TimeoutError, str, TimeoutError]


async def test_a_task_that_was_ended_by_its_deadline_goes_on() -> None:
    deadlines = Deadlines()
    with pytest.raises(TimeoutError):
        await deadlines.hold(time.monotonic(), after(60.0))

    assert await deadlines.hold(time.monotonic() + 5, after(0.3)) == "answer"


async def test_a_task_that_is_cancelled_is_cancelled() -> None:
    deadlines = Deadlines()
    task = asyncio.create_task(deadlines.hold(time.monotonic() + 60, after(60.0)))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_cancelled_at_its_deadline_ends() -> None:
    deadlines = Deadlines()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # the worker stops in this very moment
            raise

    task = asyncio.create_task(deadlines.hold(time.monotonic(), stubborn()))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_the_work_raises_comes_through() -> None:
    async def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Deadlines().hold(time.monotonic() + 5, broken())
