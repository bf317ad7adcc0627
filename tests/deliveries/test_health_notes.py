"""Notes of a service's health: written on a change alone, and by all processes into one place."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest
from test_service import service

from service.worker.deliveries.attempt import Ending, Failure
from service.worker.deliveries.health_notes import Healths
from service.worker.deliveries.service import Service, ServiceState, document_of
from service.worker.results.connection import Store
from service.worker.results.database import Document

NOW = dt.datetime(2026, 11, 26, 12, 0, tzinfo=dt.UTC)
DAY, HOUR, MINUTE = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(minutes=1)
WELL, FAILED = Ending(status=200), Ending(Failure.SERVER_ERROR, 500)
GONE = Ending(Failure.GONE, 410)
REFUSED = Ending(Failure.REFUSED, 422)


@pytest.fixture
def orders(store: Store) -> Service:
    made = service(state=ServiceState.ACTIVE)
    store.services.insert_one(document_of(made))
    return made


@pytest.fixture
def announced() -> list[str]:
    return []


@pytest.fixture
async def healths(store: Store, announced: list[str]) -> Healths:
    return new(store, announced)


def new(store: Store, announced: list[str]) -> Healths:
    """What another process has."""

    async def changed() -> None:
        announced.append("changed")

    return Healths(store, changed)


def stored(store: Store) -> Document:
    return store.services.find_one() or {}


def failing_since(store: Store) -> dt.datetime | None:
    found: dt.datetime | None = (stored(store).get("health") or {}).get("failing_since")
    return found


async def test_the_first_failure_of_several_in_a_row_is_noted_by_whichever_process(
    store: Store, orders: Service, healths: Healths
) -> None:
    for hours in range(3):
        await healths.note(orders, FAILED, NOW + hours * HOUR, first=not hours)
        await new(store, []).note(orders, FAILED, NOW + hours * HOUR + MINUTE, first=not hours)

    assert failing_since(store) == NOW


async def test_a_delivery_that_arrives_ends_that(
    store: Store, orders: Service, healths: Healths
) -> None:
    await healths.note(orders, FAILED, NOW, first=True)

    await healths.note(orders, WELL, NOW + HOUR, first=True)

    assert failing_since(store) is None


async def test_another_process_that_knew_it_to_be_well_notes_a_delivery_that_had_failed(
    store: Store, orders: Service, healths: Healths
) -> None:
    other = new(store, [])
    await other.note(orders, WELL, NOW, first=True)
    await healths.note(orders, FAILED, NOW, first=True)

    await other.note(orders, WELL, NOW + HOUR, first=False)

    assert failing_since(store) is None


async def test_a_service_that_is_well_costs_no_write_and_no_question(
    store: Store, orders: Service, healths: Healths, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def note_it(*step: object) -> None:
        asked.append(step)

    await healths.note(orders, WELL, NOW, first=True)
    monkeypatch.setattr(store, "on_writer", note_it)

    for ending in (WELL, REFUSED) * 100:
        await healths.note(orders, ending, NOW, first=True)

    assert asked == []


async def test_what_deliveries_find_out_at_once_is_written_together(
    store: Store, orders: Service, healths: Healths, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def note_it(*step: object) -> None:
        asked.append(step)

    monkeypatch.setattr(store, "on_writer", note_it)

    await asyncio.gather(*(healths.note(orders, WELL, NOW, first=True) for _ in range(100)))

    assert len(asked) == 1


async def test_a_delivery_that_is_refused_says_nothing_of_its_service(
    store: Store, orders: Service, healths: Healths
) -> None:
    await healths.note(orders, REFUSED, NOW, first=True)

    assert "health" not in stored(store)


async def test_410_disables_at_once(
    store: Store, orders: Service, healths: Healths, announced: list[str]
) -> None:
    await healths.note(orders, GONE, NOW, first=True)
    await healths.note(orders, GONE, NOW + HOUR, first=True)

    found = stored(store)
    assert (found["state"], found["disabled_at"], found["disabled_why"]) == (
        ServiceState.DISABLED,
        NOW,
        "gone",
    )
    assert announced == ["changed"]


async def test_five_days_of_failures_disable(
    store: Store, orders: Service, healths: Healths, announced: list[str]
) -> None:
    await healths.note(orders, FAILED, NOW, first=True)
    await healths.note(orders, FAILED, NOW + 5 * DAY - HOUR, first=False)
    assert stored(store)["state"] == ServiceState.ACTIVE

    await healths.note(orders, FAILED, NOW + 5 * DAY, first=False)

    assert (stored(store)["state"], stored(store)["disabled_why"]) == ("disabled", "failing")
    assert announced == ["changed"]


async def test_a_delivery_that_arrived_meanwhile_in_another_process_lets_it_stay_active(
    store: Store, orders: Service, healths: Healths
) -> None:
    await healths.note(orders, FAILED, NOW, first=True)
    await new(store, []).note(orders, WELL, NOW + DAY, first=True)

    await healths.note(orders, FAILED, NOW + 5 * DAY, first=False)

    assert stored(store)["state"] == ServiceState.ACTIVE


async def test_a_paused_service_is_disabled_by_410_alone(store: Store, healths: Healths) -> None:
    paused = service(state=ServiceState.PAUSED)
    store.services.insert_one(document_of(paused) | {"health": {"failing_since": NOW - 9 * DAY}})

    await healths.note(paused, FAILED, NOW, first=True)
    assert stored(store)["state"] == ServiceState.PAUSED
    await healths.note(paused, GONE, NOW, first=True)

    assert stored(store)["state"] == ServiceState.DISABLED
