"""Whom a process asks when, and how many calls it lets a take bring."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

import pytest
from flow_ports import call

from service.flow import drain
from service.flow.drain import FEWEST_IN_ONE_TAKE, Drainer
from tracking.call import Turn
from tracking.request import Slug

USPS, SLOW = Slug("usps"), Slug("slow")


@dataclass
class Takes:
    """What was asked for; `bring` says what comes of it, `held` are slugs without an answer."""

    bring: Callable[[int], int] = lambda _: 0
    held: set[Slug] = field(default_factory=set)
    asked: list[tuple[Slug, int]] = field(default_factory=list)

    async def take(self, slug: Slug, room: int, **_: object) -> Turn:
        self.asked.append((slug, room))
        if slug in self.held:
            await asyncio.Event().wait()
        calls = tuple(call(id=f"c{n}") for n in range(self.bring(room)))
        return Turn(calls, ask_again=time.monotonic())


class Nobody:
    async def go_on(self, slug: Slug, turn: Turn) -> None:
        if turn.ask_again is not None:
            self.look_again(slug, turn.ask_again)

    look_again: Callable[[Slug, float], None]


async def free() -> None: ...


@asynccontextmanager
async def draining(takes: Takes, room: Callable[[], int], *slugs: Slug) -> AsyncIterator[None]:
    drainer, turns = Drainer(takes, free, room, lambda _: None), Nobody()  # type: ignore[arg-type]
    turns.look_again = drainer.look_again
    for slug in slugs:
        drainer.look_again(slug, time.monotonic())
    running = asyncio.create_task(drainer.run(turns))  # type: ignore[arg-type]
    try:
        yield
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


async def test_a_slug_without_an_answer_holds_up_no_other() -> None:
    takes = Takes(held={SLOW})

    async with draining(takes, lambda: 100, SLOW, USPS):
        await until(lambda: times(takes, USPS) >= 3)

    assert times(takes, SLOW) == 1


async def test_a_take_may_bring_a_few_more_than_most_couriers_allow() -> None:
    takes = Takes(bring=lambda _: 2)

    async with draining(takes, lambda: 100, USPS):
        await until(lambda: times(takes, USPS) >= 3)

    assert {room for _, room in takes.asked} == {FEWEST_IN_ONE_TAKE}


async def test_a_take_may_bring_twice_what_the_last_one_brought() -> None:
    takes = Takes(bring=lambda room: room)

    async with draining(takes, lambda: 100, USPS):
        await until(lambda: times(takes, USPS) >= 6)

    assert [room for _, room in takes.asked[:6]] == [4, 8, 16, 32, 64, 64]


async def test_a_take_is_not_cut_short_for_what_others_may_not_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "FULL_SECONDS", 60.0)
    takes = Takes(held={SLOW})

    async with draining(takes, lambda: FEWEST_IN_ONE_TAKE, SLOW, USPS):
        await until(lambda: times(takes, SLOW) == 1)
        for _ in range(9):
            await asyncio.sleep(0)

    assert times(takes, USPS) == 0, "it would have used up its room and handed the slug over"


async def test_the_last_room_of_a_process_is_given_to_whoever_is_due() -> None:
    takes = Takes(bring=lambda room: room)

    async with draining(takes, lambda: 1, USPS):
        await until(lambda: times(takes, USPS) >= 2)

    assert {room for _, room in takes.asked} == {1}


async def test_a_full_process_looks_again_before_it_hands_a_slug_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain, "FULL_SECONDS", 0.001)
    takes, looks = Takes(), count(1)
    seen = [0]

    def no_room() -> int:
        seen[0] = next(looks)
        return 0

    async with draining(takes, no_room, USPS):
        await until(lambda: seen[0] >= 5)
        asked_while_full = list(takes.asked)
        monkeypatch.setattr(drain, "FULL_MOST_SECONDS", 0.0)
        await until(lambda: times(takes, USPS) >= 1)

    assert asked_while_full == []
    assert takes.asked[0] == (USPS, 0)
