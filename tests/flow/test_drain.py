"""Draining (flow/drain.py) and sweeping: whom a process asks when, and how many calls it takes.

The duty to look again is somebody's at every moment.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from flow_ports import USPS, Job, Journal, Scene, away, call, slots_for

from service.worker.flow import drain, handle
from service.worker.flow.drain import FEWEST_IN_ONE_TAKE, Drainer
from service.worker.flow.tasks import CallSlots
from service.worker.upkeep import sweeper
from tracking.call import NO_ROOM, Swept, TakeResult
from tracking.errors import LimitsDown, MalformedJob, UnknownLine
from tracking.line import Line
from tracking.request import Slug

pytestmark = pytest.mark.usefixtures("unread_log")

SLOW = Slug("slow")


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
    slots.assign(calling, USPS)

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
    slots.assign(calling, USPS)

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
    slots.assign(calling, USPS)
    slots.waiting.add(USPS)

    async with draining(takes, slots):
        calling.cancel()
        await until(lambda: times(takes, USPS) >= 1)

    assert takes.asked[0] == (USPS, 1)


async def test_a_full_process_keeps_the_drain_jobs_that_it_claims() -> None:
    takes, slots, job = Takes(), slots_for(1), Job(Journal())
    calling = asyncio.create_task(asyncio.Event().wait())
    slots.assign(calling, USPS)

    async with draining(takes, slots) as drainer:
        await drainer.claim(USPS, job)

    assert takes.asked == [(USPS, NO_ROOM)]
    assert job.journal.steps == []
    assert not slots.waiting.add(USPS), "it stands there"
    calling.cancel()


async def test_a_drain_job_goes_once_somebody_was_asked_who_waits() -> None:
    scene = Scene()
    scene.journal.fail("take", *away(LimitsDown, 2))

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == [*["take"] * 3, "delete"]
    assert len(set(scene.limits.names)) == 1, "what a lost answer granted is granted again"


async def test_a_drain_job_is_kept_while_its_slug_is_drained() -> None:
    scene = Scene()
    scene.limits.result = TakeResult(ask_again=time.monotonic() + 60.0)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take"]
    assert [slug for slug, _ in scene.again] == [USPS]


async def test_a_full_process_hands_its_drain_job_to_others() -> None:
    scene = Scene()
    scene.limits.result = TakeResult(put_drain=True)

    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["take", "release"]


@pytest.mark.parametrize(("known", "then"), [("usps@acme", "release"), ("other", "delete")])
async def test_a_drain_job_for_a_line_that_is_not_known_is_left_to_others_or_recorded_nowhere(
    monkeypatch: pytest.MonkeyPatch, known: str, then: str
) -> None:
    """What waits there stays in Redis; a worker that knows the line puts the job again."""
    monkeypatch.setattr(handle, "LEFT_AFTER_SECONDS", 0.0)
    scene = Scene()
    scene.known = frozenset({known})

    def refuse(_: object) -> Slug:
        raise UnknownLine("usps@acme")

    scene.drains = refuse
    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["does anybody know usps@acme", then]


async def test_a_drain_job_that_cannot_be_read_is_recorded_and_buried() -> None:
    scene = Scene()

    def refuse(_: object) -> Slug:
        raise MalformedJob("bad_json", "no JSON")

    scene.drains = refuse
    scene.receiver.on_drains([Job(scene.journal)])

    assert await scene.all_ended() == ["record 1", "bury"]


async def test_a_line_over_which_a_defect_comes_up_is_asked_for_again_and_keeps_one_drain_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Released, its job would come back at once, and for ever."""
    monkeypatch.setattr(drain, "AFTER_DEFECT_SECONDS", 0.01)
    scene = Scene()
    scene.defects.too_many = True
    scene.journal.fail("take", *(ZeroDivisionError() for _ in range(4)))

    scene.receiver.on_drains([Job(scene.journal)])
    first = list(await scene.all_ended())
    scene.receiver.on_drains([Job(scene.journal)])
    second = list(await scene.all_ended())
    draining = asyncio.create_task(scene.drainer.run())
    async with asyncio.timeout(5):
        while "delete" not in scene.journal.steps[3:]:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    scene.drainer.retire()
    await draining

    assert first == ["take"], "the job is kept"
    assert second == ["take", "take", "delete"], "one is enough"
    assert scene.journal.steps[3:] == ["take", "take", "take", "delete"], "until it is drained"


async def test_calls_that_were_taken_are_all_asked_for() -> None:
    scene = Scene()

    await scene.runner.apply(USPS, TakeResult(groups=((call(id="c1"),), (call(id="c2"),))))

    assert sorted(await scene.all_ended()) == ["ask"] * 2 + ["finish"] * 2 + ["save"] * 2


async def test_the_sweep_records_the_dying_and_asks_for_a_drainer() -> None:
    scene = Scene()
    scene.limits.swept = (Swept(USPS, swept=1, dying=(call(deaths=11),), put_drain=True),)

    await scene.sweeper.sweep()

    assert scene.journal.steps == [
        "sweep 1",
        "note final failure",
        "record 1",
        "finish",
        "put drain usps",
    ]


async def test_a_defect_over_one_line_leaves_the_others_to_be_swept() -> None:
    scene = Scene()
    scene.limits.swept = (Swept(USPS, dying=(call(deaths=11),)), Swept(USPS, put_drain=True))
    scene.journal.fail("record 1", KeyError("a defect"))

    await scene.sweeper.sweep()

    assert scene.journal.steps == ["sweep 1", "note final failure", "record 1", "put drain usps"]


async def test_what_hindered_the_sweep_of_one_line_is_told_and_the_others_are_put_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sweeper, "emit_unexpected", lambda _, slug: told.append(slug))
    scene = Scene()
    scene.limits.swept = (
        Swept(USPS, put_drain=True, error=KeyError("a defect")),
        Swept(Line("ups"), put_drain=True, error=LimitsDown("said elsewhere")),
    )

    await scene.sweeper.sweep()

    assert scene.journal.steps == ["sweep 1", "put drain usps", "put drain ups"]
    assert told == [USPS]
