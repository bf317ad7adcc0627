"""The room for calls: its bound holds, nothing of it is lost, and all slugs get their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from service.flow.call_room import CallRoom
from tracking.call import NO_ROOM
from tracking.request import Slug

USPS, UPS, DHL = Slug("usps"), Slug("ups"), Slug("dhl")


async def by_another(work: Callable[[], object]) -> object:
    """Have a task of its own do something, and end."""

    async def do() -> object:
        return work()

    return await asyncio.create_task(do())


async def holding(room: CallRoom, places: int) -> asyncio.Task[None]:
    """A task that has so many places, until it is cancelled."""
    taken = asyncio.Event()

    async def hold() -> None:
        assert room.take(places) == places
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
    room = CallRoom(5)

    first = await holding(room, 3)

    assert room.take(3) == 2
    assert room.taken == 5
    await end(first)


async def test_a_task_that_asks_again_gets_what_it_lacks() -> None:
    room = CallRoom(5)
    room.take(2)

    assert room.take(4) == 4
    assert room.taken == 4


async def test_a_full_process_has_no_room_and_one_that_stops_none_any_more() -> None:
    room = CallRoom(1)
    busy = await holding(room, 1)

    assert room.take(1) == NO_ROOM
    room.stop()

    assert (room.take(1), room.take_to_follow()) == (0, 0)
    await end(busy)


async def test_what_a_task_leaves_is_for_others() -> None:
    room = CallRoom(5)
    room.take(5)

    room.leave()

    assert await by_another(lambda: room.take(9)) == 5


async def fails(_: CallRoom) -> None:
    raise ZeroDivisionError


async def waits(_: CallRoom) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("ends", [fails, waits])
async def test_the_places_of_a_task_come_back_however_it_ends(
    ends: Callable[[CallRoom], Awaitable[None]],
) -> None:
    room = CallRoom(5)

    async def take() -> None:
        room.take(3)
        await ends(room)

    task = asyncio.create_task(take())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)

    assert room.taken == 0


async def test_a_call_goes_on_with_the_place_of_the_one_that_started_it() -> None:
    room = CallRoom(2)
    room.take(2)
    calls = [asyncio.create_task(waits(room)) for _ in range(2)]

    for call in calls:
        room.pass_on(call)
    room.leave()

    assert room.taken == 2
    await end(*calls)
    assert room.taken == 0


async def test_a_call_that_ends_may_be_followed_by_two() -> None:
    room = CallRoom(2)
    room.take(1)

    assert room.take_to_follow() == 2


async def test_a_call_that_ends_in_a_full_process_is_followed_by_one() -> None:
    room = CallRoom(2)
    other = await holding(room, 1)
    room.take(1)

    assert room.take_to_follow() == 1
    await end(other)


async def test_while_a_slug_stands_in_line_nobody_else_gets_a_place() -> None:
    room = CallRoom(2)
    room.take(1)
    room.waiting.add(USPS)

    assert await by_another(lambda: room.take(1)) == NO_ROOM
    assert room.take_to_follow() == NO_ROOM, "its place is for the slug that waits"


async def test_places_go_to_slugs_in_the_order_in_which_they_came() -> None:
    room = CallRoom(1)
    busy = await holding(room, 1)
    for slug in (USPS, UPS, DHL):
        room.waiting.add(slug)
    room.waiting.leave(UPS)
    assert room.call_in() is None

    await end(busy)

    assert room.call_in() == USPS
    called_in = await holding(CallRoom(1), 1)
    room.place(called_in)
    assert room.call_in() is None, "there was one place"
    await end(called_in)
    assert room.call_in() == DHL


async def test_a_slug_that_is_called_in_gets_what_is_free_of_what_it_wants() -> None:
    room = CallRoom(3)
    two = await holding(CallRoom(1), 1)
    room.place(two, 2)
    one = await holding(CallRoom(1), 1)
    room.place(one, 2)

    assert room.taken == 3
    await end(two)
    assert room.taken == 1
    await end(one)


async def test_a_slug_stands_in_line_once() -> None:
    room = CallRoom(1)

    assert (room.waiting.add(USPS), room.waiting.add(USPS)) == (True, False)


async def test_each_free_place_wakes_who_calls_lines_in() -> None:
    room, told = CallRoom(1), list[str]()
    room.waiting.wake = lambda: told.append("free")
    busy = await holding(room, 1)

    room.waiting.add(USPS)
    assert told == ["free"], "there may be room already"
    await end(busy)

    assert told == ["free"] * 2
