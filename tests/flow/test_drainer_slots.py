"""Whom a process asks when, and how many calls it lets a take bring."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from flow_ports import Job, Journal, call, slots_for

from service.worker.flow import drain
from service.worker.flow.drain import FEWEST_IN_ONE_TAKE, Drainer
from service.worker.flow.tasks import CallSlots
from tracking.call import NO_ROOM, TakeResult
from tracking.request import Slug

USPS, SLOW = Slug("usps"), Slug("slow")


@dataclass
class Takes:
    """What was asked for; `bring` says what comes of it, `held` are slugs without an `answer`.

    Over each of `broken` a defect comes up once.
    """

    bring: Callable[[int], int] = lambda _: 0
    held: set[Slug] = field(default_factory=set)
    ids: Iterator[str] = field(default_factory=lambda: map(str, itertools.count()))
    broken: set[Slug] = field(default_factory=set)
    asked: list[tuple[Slug, int]] = field(default_factory=list)
    answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, _: str, slug: Slug, room: int, **__: object) -> TakeResult:
        self.asked.append((slug, room))
        if slug in self.broken:
            self.broken.discard(slug)
            raise KeyError(slug)
        if slug in self.held:
            await self.answer.wait()
            return TakeResult()
        if room == NO_ROOM:
            return TakeResult(ask_again=time.monotonic() + 30.0, full=True)
        groups = tuple((call(id=f"c{n}"),) for n in range(self.bring(room)))
        return TakeResult(groups, ask_again=time.monotonic())


@dataclass
class Nobody:
    """Does what a result says; its calls are over at once."""

    slots: CallSlots
    schedule: Callable[[Slug, float], None] = lambda *_: None

    async def apply(self, slug: Slug, result: TakeResult) -> None:
        self.slots.give_back()
        if result.full:
            self.slots.waiting.add(slug)
        if result.ask_again is not None:
            self.schedule(slug, result.ask_again)


@asynccontextmanager
async def draining(takes: Takes, slots: CallSlots, *slugs: Slug) -> AsyncIterator[Drainer]:
    drainer = Drainer(takes, slots, Nobody(slots))  # type: ignore[arg-type]
    for slug in slugs:
        drainer.schedule(slug, time.monotonic())
    running = asyncio.create_task(drainer.run())
    try:
        yield drainer
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


def times(takes: Takes, slug: Slug) -> int:
    return sum(each == slug for each, _ in takes.asked)


def a_few_more(takes: Takes, slug: Slug) -> Callable[[], bool]:
    enough = times(takes, slug) + 3
    return lambda: times(takes, slug) >= enough


async def test_a_slug_without_an_answer_holds_up_no_other() -> None:
    takes = Takes(held={SLOW})

    async with draining(takes, slots_for(100), SLOW, USPS):
        await until(lambda: times(takes, USPS) >= 3)

    assert times(takes, SLOW) == 1


async def test_a_slug_is_asked_for_once_at_a_time() -> None:
    takes = Takes(held={SLOW})

    async with draining(takes, slots_for(100), SLOW, USPS) as drainer:
        await until(lambda: times(takes, SLOW) == 1)
        drainer.schedule(SLOW, time.monotonic())
        await until(a_few_more(takes, USPS))
        asked_meanwhile = times(takes, SLOW)
        takes.answer.set()
        await until(lambda: times(takes, SLOW) == 2)

    assert asked_meanwhile == 1


async def test_a_slug_that_is_called_in_while_it_is_asked_for_is_asked_for_afterwards() -> None:
    takes, slots = Takes(held={SLOW}), slots_for(100)

    async with draining(takes, slots, SLOW, USPS):
        await until(lambda: times(takes, SLOW) == 1)
        slots.waiting.add(SLOW)
        await until(a_few_more(takes, USPS))
        asked_meanwhile = times(takes, SLOW)
        takes.answer.set()
        await until(lambda: times(takes, SLOW) == 2)

    assert asked_meanwhile == 1
    assert not len(slots.waiting)


@pytest.mark.usefixtures("unread_log")
async def test_a_defect_over_one_slug_stops_no_other_and_that_one_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "AFTER_DEFECT_SECONDS", 0.01)
    takes = Takes(broken={SLOW})
    slots = slots_for(100)

    async with draining(takes, slots, SLOW, USPS):
        await until(lambda: times(takes, USPS) >= 3 and times(takes, SLOW) >= 3)

    assert slots.taken == 0


async def test_a_take_may_bring_what_most_couriers_allow() -> None:
    takes = Takes(bring=lambda _: 1)

    async with draining(takes, slots_for(100), USPS):
        await until(lambda: times(takes, USPS) >= 3)

    assert {room for _, room in takes.asked} == {FEWEST_IN_ONE_TAKE}


async def test_a_take_may_bring_twice_what_the_last_one_brought() -> None:
    takes = Takes(bring=lambda room: room)

    async with draining(takes, slots_for(100), USPS):
        await until(lambda: times(takes, USPS) >= 6)

    assert [room for _, room in takes.asked[:6]] == [2, 4, 8, 16, 32, 64]


async def test_a_take_brings_no_more_than_there_is_room_for() -> None:
    takes = Takes(bring=lambda room: room)

    async with draining(takes, slots_for(1), USPS):
        await until(lambda: times(takes, USPS) >= 2)

    assert {room for _, room in takes.asked} == {1}


async def test_takes_under_way_have_the_places_that_they_may_fill() -> None:
    takes, slots = Takes(held={SLOW}), slots_for(FEWEST_IN_ONE_TAKE + 1)

    async with draining(takes, slots, SLOW, USPS):
        await until(lambda: times(takes, USPS) >= 1)

    assert takes.asked[:2] == [(SLOW, FEWEST_IN_ONE_TAKE), (USPS, 1)]


async def test_a_slug_that_finds_the_process_full_is_asked_for_when_a_place_is_free() -> None:
    takes, slots = Takes(), slots_for(1)
    calling = asyncio.create_task(asyncio.Event().wait())
    slots.assign(calling)

    async with draining(takes, slots, USPS):
        for _ in range(9):
            await asyncio.sleep(0)
        asked_while_full = list(takes.asked)
        calling.cancel()
        await until(lambda: times(takes, USPS) >= 1)

    assert asked_while_full == [], "Redis has nothing to say about it"
    assert takes.asked[0] == (USPS, 1)


async def test_redis_hears_who_has_the_duty_while_a_slug_stands_in_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "UNREPORTED_SECONDS", 0.001)
    takes, slots = Takes(), slots_for(1)
    calling = asyncio.create_task(asyncio.Event().wait())
    slots.assign(calling)

    async with draining(takes, slots, USPS):
        await until(lambda: times(takes, USPS) >= 1)
        await asyncio.sleep(0.02)

    assert takes.asked == [(USPS, NO_ROOM)], "once; then it is named for half a minute"
    calling.cancel()


async def test_all_slugs_of_a_full_process_get_their_turns() -> None:
    takes, slugs = Takes(bring=lambda room: room), [Slug(f"slug-{n}") for n in range(20)]

    async with draining(takes, slots_for(2), *slugs):
        await until(lambda: len(takes.asked) >= 100)

    turns = [times(takes, slug) for slug in slugs]
    assert min(turns) >= 3
    assert max(turns) - min(turns) <= 3


async def test_a_slug_that_was_called_in_is_asked_for_before_it_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else one that waits for a place for longer than it is held would never be called."""
    monkeypatch.setattr(drain, "SHARE_AFTER_SECONDS", 0.0)
    takes, slots = Takes(), slots_for(1)
    calling = asyncio.create_task(asyncio.Event().wait())
    slots.assign(calling)
    slots.waiting.add(USPS)

    async with draining(takes, slots):
        calling.cancel()
        await until(lambda: times(takes, USPS) >= 1)

    assert takes.asked[0] == (USPS, 1)


async def test_a_full_process_keeps_the_drain_jobs_that_it_claims() -> None:
    takes, slots, job = Takes(), slots_for(1), Job(Journal())
    calling = asyncio.create_task(asyncio.Event().wait())
    slots.assign(calling)

    async with draining(takes, slots) as drainer:
        await drainer.claim(USPS, job)

    assert takes.asked == [(USPS, NO_ROOM)]
    assert job.journal.steps == []
    assert not slots.waiting.add(USPS), "it stands there"
    calling.cancel()
