"""What the filler brings in, told by what it is asked for."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from engine import deliveries_of, service

from limits.window import Window
from service.worker.deliveries import filler as filling
from service.worker.deliveries.delivery import Delivery, DeliveryState
from service.worker.deliveries.filler import Filler
from service.worker.deliveries.lines import LOW_SECONDS, WINDOW
from service.worker.deliveries.service import Service, ServiceState
from tracking.line import Line
from tracking.request import TrackingRequest

LOW = WINDOW // 2
"""From here on the line of a fast service is filled again."""


@dataclass
class Stage:
    """Everything around the filler, on which each test sets what is there."""

    service: Service
    changed: Service | None = None
    due_now: list[Delivery] = field(default_factory=list)
    open: bool = True
    held_by_others: bool = False
    window: Window = field(default_factory=lambda: inside(0))
    brought: list[str] = field(default_factory=list)
    asked: int = 0

    def all(self) -> Sequence[Service]:
        return [self.service]

    def by_line(self, line: Line) -> Service | None:
        return self.service if line == self.service.line else None

    async def hold(self, lines: Sequence[Line]) -> Sequence[Line]:
        return [] if self.held_by_others else lines

    async def counts(self, lines: Sequence[Line]) -> list[int]:
        return [len(self.window.numbers) for _ in lines]

    async def trying(self, lines: Sequence[Line]) -> list[Line]:
        return list(lines) if self.window.probes else []

    async def look(self, line: Line | None = None) -> Window:
        if line is None:  # at the services
            self.service = self.changed or self.service
        return self.window

    async def due(
        self, _: str, now: dt.datetime, most: int, besides: Iterable[str] = ()
    ) -> list[Delivery]:
        self.asked += 1
        due = [each for each in self.due_now if each.next_at <= now and each.id not in besides]
        return due[:most]

    async def head(self, _: str, settled: dt.datetime) -> Delivery | None:
        return next((each for each in self.due_now if each.made_at <= settled), None)

    async def later_on(self, _: str, after: str) -> Delivery | None:
        return next((each for each in self.due_now if each.id > after), None)

    async def is_open(self, _: Iterable[str]) -> bool:
        return self.open

    async def services_with_due(self, ids: Sequence[str], now: dt.datetime) -> frozenset[str]:
        return frozenset(ids if await self.due("", now, 1) else [])

    def bring(self, wishes: Iterable[tuple[TrackingRequest, str]]) -> None:
        self.brought += [request.number for request, _ in wishes]


def filler_on(stage: Stage) -> Filler:
    return Filler(stage, stage, stage, stage, stage.bring)  # type: ignore[arg-type]


def numbers(deliveries: Sequence[Delivery]) -> list[str]:
    return [each.id for each in deliveries]


def inside(count: int) -> Window:
    return Window(frozenset(map(str, range(count))))


async def test_a_low_line_is_filled_to_a_thousand_with_what_is_not_there() -> None:
    stage = Stage(shop := service())
    stage.due_now = deliveries_of(shop, 1_500)
    there = stage.due_now[:200]
    stage.window = Window(frozenset(numbers(there)))

    await filler_on(stage).fill(shop.line)

    assert stage.brought == numbers(stage.due_now[200:WINDOW])


async def test_of_a_slow_service_no_more_is_brought_in_than_it_can_start_for_a_while() -> None:
    stage = Stage(slow := service(concurrent=20, per_second=10))
    stage.due_now = deliveries_of(slow, 1_500)

    await filler_on(stage).fill(slow.line)

    assert len(stage.brought) == 2 * (20 + 10 * LOW_SECONDS)


@pytest.mark.parametrize("count", [LOW, WINDOW])
async def test_a_line_that_has_enough_is_not_filled(count: int) -> None:
    stage = Stage(shop := service())
    stage.due_now, stage.window = deliveries_of(shop, 10), inside(count)

    await filler_on(stage).fill(shop.line)

    assert (stage.brought, stage.asked) == ([], 0)


async def test_only_lines_that_this_process_holds_and_that_are_low_are_looked_at() -> None:
    stage = Stage(shop := service())
    stage.due_now = deliveries_of(shop, 1)
    assert await filler_on(stage).look() == [shop.line]

    assert await filler_on(replace(stage, held_by_others=True)).look() == []
    assert await filler_on(replace(stage, window=inside(LOW))).look() == []
    paused = replace(shop, state=ServiceState.PAUSED)
    assert await filler_on(replace(stage, service=paused)).look() == []


async def test_a_line_that_was_made_active_unheard_is_filled_when_it_is_woken() -> None:
    disabled = replace(service(), state=ServiceState.DISABLED)
    stage = Stage(disabled, due_now=deliveries_of(disabled, 1))
    await filler_on(stage).fill(disabled.line)
    assert stage.brought == []

    stage.changed = replace(disabled, state=ServiceState.ACTIVE)
    await filler_on(stage).fill(disabled.line)
    assert stage.brought == numbers(stage.due_now)


async def test_of_an_ordered_service_only_the_first_is_brought_in_once_it_has_settled() -> None:
    stage = Stage(shop := service(ordered=True))
    stage.due_now = deliveries_of(shop, 3)
    await filler_on(stage).fill(shop.line)
    assert stage.brought == numbers(stage.due_now[:1])

    just_now = [replace(each, made_at=dt.datetime.now(dt.UTC)) for each in stage.due_now]
    stage = Stage(shop, due_now=just_now)
    await filler_on(stage).fill(shop.line)
    assert stage.brought == []


async def test_of_an_ordered_service_nothing_follows_one_that_is_open() -> None:
    stage = Stage(shop := service(ordered=True))
    stage.due_now, stage.window = deliveries_of(shop, 1), Window(frozenset({"before"}))
    await filler_on(stage).fill(shop.line)
    assert stage.brought == []

    stage.open = False
    await filler_on(stage).fill(shop.line)
    assert stage.brought == numbers(stage.due_now)


async def test_the_first_of_an_ordered_service_tries_a_line_that_rested() -> None:
    stage = Stage(shop := service(ordered=True))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    stage.due_now = [replace(each, next_at=later) for each in deliveries_of(shop, 2)]
    await filler_on(stage).fill(shop.line)
    assert stage.brought == []

    stage.window = Window(frozenset(), probes=True)
    for _ in range(2):
        await filler_on(stage).fill(shop.line)
    assert stage.brought == [stage.due_now[0].id] * 2


async def test_what_is_inserted_is_brought_in_where_it_is_due_and_somebody_hears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filling, "PERIOD_SECONDS", 10_000.0)  # no look but the one it wakes for
    stage = Stage(shop := service())
    now, other = dt.datetime.now(dt.UTC), service()
    due, soon, later, held = deliveries_of(shop, 4)
    soon = replace(soon, next_at=now + dt.timedelta(seconds=0.2))
    later = replace(later, next_at=now + dt.timedelta(hours=1))
    held = replace(held, state=DeliveryState.HELD)
    filler = filler_on(stage)
    stage.due_now = [due, soon]

    filler.bring([due, soon, later, held, *deliveries_of(other, 1)])
    assert stage.brought == [due.id]
    running = asyncio.create_task(filler.run())
    await asyncio.sleep(0.4)
    running.cancel()
    assert stage.brought[1:] == [due.id, soon.id]


async def test_what_an_ordered_service_is_to_hear_of_is_left_to_settle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filling, "SETTLES_SECONDS", 0.1)
    monkeypatch.setattr(filling, "PERIOD_SECONDS", 10_000.0)  # no look but the one it wakes for
    stage = Stage(shop := service(ordered=True))
    stage.due_now = deliveries_of(shop, 2)
    filler = filler_on(stage)

    filler.bring(stage.due_now)
    assert stage.brought == []
    running = asyncio.create_task(filler.run())
    await asyncio.sleep(0.3)
    running.cancel()
    assert stage.brought == [stage.due_now[0].id]
