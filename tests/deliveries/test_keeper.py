"""The keeper: nothing of a disabled service is lost, and nobody keeps more than an account may."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from test_service import service

from service.worker.deliveries import keeper as keeper_module
from service.worker.deliveries.delivery import Delivery, DeliveryState, document_of
from service.worker.deliveries.keeper import COUNTS, Bounds, Keeper
from service.worker.deliveries.service import Service, ServiceState
from service.worker.deliveries.service import document_of as service_document
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Document
from tracking.request import Account

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY, MINUTE = dt.timedelta(days=1), dt.timedelta(minutes=1)
HELD, OPEN, DEAD, CANCELLED = "held", "open", "dead", "cancelled"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.fixture
def announced() -> list[str]:
    return []


def new(store: Store, announced: list[str], bounds: Bounds = Bounds()) -> Keeper:  # noqa: B008
    async def changed() -> None:
        announced.append("changed")

    return Keeper(store, bounds, changed)


@pytest.fixture
def keeper(store: Store, announced: list[str]) -> Keeper:
    return new(store, announced)


def keep(store: Store, made: Service, **members: object) -> None:
    store.services.insert_one(service_document(made) | members)


def deliver(store: Store, count: int = 3, *, to: str = "a" * 16, state: str = OPEN) -> None:
    """Insert deliveries that become due minute by minute, the oldest first: A, B, C …"""
    for at in range(count):
        made = Delivery(
            id=f"{LETTERS[at]}{state}{to[:4]}",
            service=to,
            account=Account("shop"),
            event=f"event{at}",
            type=EventName.PARCEL_CHANGED,
            made_at=NOW + at * MINUTE,
            next_at=NOW + at * MINUTE,
            state=DeliveryState(state),
        )
        store.deliveries.insert_one(document_of(made))


def states(store: Store) -> str:
    """The states of all deliveries, the oldest first."""
    return " ".join(each["state"] for each in store.deliveries.find().sort("next_at"))


def health(store: Store) -> Document:
    found: Document = (store.services.find_one() or {}).get("health", {})
    return found


DISABLED = service(state=ServiceState.DISABLED, disabled_at=NOW, disabled_why="gone")


async def test_what_is_open_to_a_disabled_service_is_held(
    store: Store, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "BATCH", 2)
    keep(store, DISABLED, health={"holds": True})
    deliver(store, 5)

    await keeper.look()

    assert states(store) == "held held held held held"


async def test_new_deliveries_join_those(store: Store, keeper: Keeper) -> None:
    keep(store, DISABLED, health={"holds": True})
    await keeper.look()
    deliver(store)

    await keeper.look()

    assert states(store) == "held held held"


async def test_processes_hear_once_of_all_that_are_disabled(
    store: Store, keeper: Keeper, announced: list[str]
) -> None:
    for name in "ab":
        keep(store, replace(DISABLED, id=name * 16, name=name), health={"holds": True})

    await keeper.look()

    assert announced == ["changed"]


async def test_processes_hear_of_a_disabled_service_though_who_disabled_it_vanished(
    store: Store, keeper: Keeper, announced: list[str]
) -> None:
    keep(store, DISABLED, health={"holds": True})

    await keeper.look()
    await keeper.look()

    assert announced == ["changed"]


async def test_what_a_paused_service_has_is_held_until_it_is_active(
    store: Store, keeper: Keeper
) -> None:
    keep(store, service(state=ServiceState.PAUSED))
    deliver(store)

    await keeper.look()
    paused = states(store)
    store.services.update_one({}, {"$set": {"state": "active"}})
    await keeper.look()

    assert (paused, states(store)) == ("held held held", "open open open")


async def test_all_that_is_held_is_open_again_once_its_service_is_active(
    store: Store, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "HEARD_SECONDS", 0.0)
    active = service(state=ServiceState.ACTIVE)
    keep(store, active, health={"holds": True, "failing_since": NOW - 9 * DAY})
    deliver(store, 2, state=HELD)
    await keeper.look()
    assert health(store)["holds"], "a process that has not heard of it may hold some more"
    deliver(store, 1, to="b" * 16, state=HELD)
    store.deliveries.update_many({}, {"$set": {"service": "a" * 16}})

    await keeper.look()

    assert states(store) == "open open open"
    due = [each["next_at"] for each in store.deliveries.find().sort("_id")]
    assert due == [NOW, NOW, NOW + MINUTE]
    assert "holds" not in health(store)
    assert health(store)["failing_since"] >= NOW, "its five days begin again"


async def test_what_a_vanished_worker_held_of_an_active_service_is_open_again(
    store: Store, keeper: Keeper
) -> None:
    keep(store, service(state=ServiceState.ACTIVE))
    deliver(store, state=HELD)

    await keeper.look()
    await keeper.look()

    assert states(store) == "open open open"


async def test_a_service_that_is_disabled_again_meanwhile_keeps_what_it_holds(
    store: Store, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, DISABLED, health={"holds": True})
    deliver(store, state=HELD)
    read_before = [{"_id": DISABLED.id, "state": "active"}]
    monkeypatch.setattr(keeper_module, "out_of_step", lambda _: read_before)

    await keeper.look()

    assert states(store) == "held held held"
    assert health(store) == {"holds": True}


async def test_other_states_stay_as_they_are(store: Store, keeper: Keeper) -> None:
    keep(store, DISABLED, health={"holds": True})
    for state in (DEAD, CANCELLED, "delivered"):
        deliver(store, 1, state=state)

    await keeper.look()

    assert sorted(states(store).split()) == [CANCELLED, DEAD, "delivered"]


async def test_of_services_that_were_deleted_long_ago_nothing_is_read(
    store: Store, keeper: Keeper
) -> None:
    await store.prepare()
    keep(store, DISABLED, health={"holds": True})
    for at in range(20):
        gone = replace(DISABLED, id=f"{at:016}", state=ServiceState.DELETED)
        keep(store, gone, health={"holds": True}, cleared_at=NOW)
    database = store.services.database
    database.command("profile", 2)

    await keeper.look()

    database.command("profile", 0)
    asked = list(database["system.profile"].find({"ns": store.services.full_name}))
    assert asked
    assert max(each["docsExamined"] for each in asked) == 1


async def test_what_is_open_and_held_is_counted_for_who_asks(store: Store, keeper: Keeper) -> None:
    keep(store, DISABLED, health={"holds": True})
    keep(store, replace(DISABLED, id="b" * 16, name="quiet", state=ServiceState.ACTIVE))
    deliver(store, 2)
    deliver(store, 3, state=HELD)

    await keeper.look()

    counted = (store.alerts.find_one({"_id": COUNTS}) or {})["services"]
    assert counted == {DISABLED.id: {"account": "shop", "open": 0, "held": 5}}


async def test_beyond_the_bound_of_an_account_the_oldest_of_its_fullest_service_are_given_up(
    store: Store, announced: list[str]
) -> None:
    active = service(state=ServiceState.ACTIVE)
    keep(store, active)
    keep(store, replace(active, id="b" * 16, name="dead"))
    deliver(store, 3)
    deliver(store, 4, to="b" * 16)
    deliver(store, 2, to="b" * 16, state=HELD)

    await new(store, announced, Bounds(open_most=6)).count()

    given_up = list(store.deliveries.find({"state": DEAD}).sort("_id"))
    assert [each["_id"] for each in given_up] == ["Aheldbbbb", "Aopenbbbb", "Bheldbbbb"]
    assert {each["why"] for each in given_up} == {"too_many_open"}
    counts = store.alerts.find_one({"_id": COUNTS}) or {}
    assert counts["given_up"]["shop"]["n"] == 3


async def test_the_bodies_of_an_account_are_bounded_too(
    store: Store, announced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "GIB", 40_000)
    monkeypatch.setattr(keeper_module, "LARGEST_BODY", 20_000)
    monkeypatch.setattr(keeper_module, "LETTERS", "A")
    keep(store, service(state=ServiceState.ACTIVE))
    deliver(store, 10)
    store.deliveries.update_one({"_id": "Aopenaaaa"}, {"$set": {"state": HELD}})
    other = Delivery("AAAA", "a" * 16, Account("shop"), "body", EventName.PARCEL_CHANGED, NOW, NOW)
    store.deliveries.insert_one(document_of(other))
    store.events.insert_one({"_id": "body", "body": b"x" * 9_950})

    await new(store, announced, Bounds(gib_most=1)).count()

    assert states(store).split().count(OPEN) == 4


async def test_what_is_held_for_too_long_is_given_up(store: Store, announced: list[str]) -> None:
    keep(store, DISABLED, health={"holds": True})
    deliver(store, 3, state=HELD)
    old = {"made_at": NOW - 31 * DAY, "next_at": NOW - 31 * DAY}
    store.deliveries.update_one({"_id": "Bheldaaaa"}, {"$set": old})

    await new(store, announced, Bounds(held_days=30)).count()

    [given_up] = store.deliveries.find({"state": DEAD})
    assert (given_up["_id"], given_up["why"]) == ("Bheldaaaa", "held_too_long")
