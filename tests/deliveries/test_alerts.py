"""Alerts, by a real mail server: people hear once that something fails, and once that it is well.

A `Post` is the server (post_office.py); what it has taken are its `mails`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from post_office import OPERATORS, SHOP, Post, waiting_mails
from pymongo.errors import AutoReconnect
from test_service import service

from service.config.schema import Mail
from service.worker.deliveries import alerts as alerts_module
from service.worker.deliveries.alerts import Addresses, Alerts
from service.worker.deliveries.keeper import note_given_up
from service.worker.deliveries.mail import Mailer
from service.worker.deliveries.service import ServiceState, document_of
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Document
from tracking.errors import LimitsDown, ResultsDown

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY, HOUR, MINUTE = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(minutes=1)
ACTIVE = service(state=ServiceState.ACTIVE, name="orders")
DISABLED = replace(ACTIVE, state=ServiceState.DISABLED, disabled_at=NOW, disabled_why="gone")

Told = list[tuple[EventName, str]]


@pytest.fixture
def store(store: Store) -> Store:
    """With an account that has an address, and a service that is well."""
    store.accounts.insert_one({"_id": "shop", "alerts": SHOP})
    store.services.insert_one(document_of(ACTIVE))
    return store


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def refused() -> list[str]:
    """The couriers that refuse our credentials."""
    return []


@pytest.fixture
def alerts(store: Store, told: Told, refused: list[str]) -> Alerts:
    return new(store, told, refused)


def new(store: Store, told: Told, refused: list[str], *, by_mail: bool = True) -> Alerts:
    made: set[str] = set()

    async def tell(event: EventName, document: Document, change: str, at: dt.datetime) -> None:
        assert at
        if change not in made:
            made.add(change)
            told.append((event, document["name"]))

    async def ask() -> list[str]:
        return refused

    return Alerts(store, Addresses(by_mail=by_mail, operators=OPERATORS), ask, tell)


def change(store: Store, **members: object) -> None:
    store.services.update_one({"_id": ACTIVE.id}, {"$set": members})


def fail(store: Store, since: dt.datetime = NOW) -> None:
    change(store, health={"failing_since": since})


def recover(store: Store) -> None:
    change(store, health={}, state="active", disabled_at=None, disabled_why="")


def disable(store: Store, why: str = "gone", at: dt.datetime = NOW) -> None:
    change(store, state="disabled", disabled_at=at, disabled_why=why, health={"holds": True})


async def test_a_service_that_fails_makes_one_alert_and_one_resolved(
    store: Store, alerts: Alerts, post: Post, smtp: Mail
) -> None:
    mailer = Mailer(store, smtp)
    fail(store)
    for minutes in range(0, 120, 5):
        await alerts.look(NOW + minutes * MINUTE)
        await mailer.look()
    recover(store)
    for minutes in range(120, 240, 5):
        await alerts.look(NOW + minutes * MINUTE)
        await mailer.look()

    assert post.subjects == [
        "Webhook service orders fails",
        "Webhook service orders is well again",
    ]
    assert post.to(SHOP) == post.subjects
    assert store.alerts.count_documents({}) == 0


async def test_it_is_resolved_once_it_was_well_for_a_quarter_of_an_hour(
    store: Store, alerts: Alerts, post: Post, smtp: Mail
) -> None:
    fail(store)
    await alerts.look(NOW + 15 * MINUTE)
    recover(store)
    await alerts.look(NOW + 20 * MINUTE)
    fail(store, NOW + 30 * MINUTE)
    await alerts.look(NOW + 30 * MINUTE)
    recover(store)
    await alerts.look(NOW + 40 * MINUTE)
    await alerts.look(NOW + 54 * MINUTE)
    await Mailer(store, smtp).look()
    assert post.subjects == ["Webhook service orders fails"]

    await alerts.look(NOW + 55 * MINUTE)
    await Mailer(store, smtp).look()

    assert post.subjects[1:] == ["Webhook service orders is well again"]


async def test_what_ends_within_a_quarter_of_an_hour_is_no_alert(
    store: Store, alerts: Alerts
) -> None:
    fail(store)
    await alerts.look(NOW + 14 * MINUTE)
    recover(store)
    await alerts.look(NOW + 60 * MINUTE)

    assert waiting_mails(store.mails) == []


async def test_people_and_the_other_services_hear_at_once_of_a_disabled_service(
    store: Store, alerts: Alerts, post: Post, smtp: Mail, told: Told
) -> None:
    disable(store)

    await alerts.look(NOW)
    await alerts.look(NOW + HOUR)
    await Mailer(store, smtp).look()

    [mail] = post.mails
    text = mail.get_content()
    assert mail["Subject"] == "Webhook service orders is disabled"
    assert "it answered 410 Gone" in text
    assert "service resume orders" in text
    assert told == [(EventName.SERVICE_DISABLED, "orders")]


async def test_they_hear_that_it_recovered(
    store: Store, alerts: Alerts, post: Post, smtp: Mail, told: Told
) -> None:
    disable(store)
    await alerts.look(NOW)
    recover(store)
    for minutes in (1, 10, 16, 30):
        await alerts.look(NOW + minutes * MINUTE)
    await Mailer(store, smtp).look()

    assert post.subjects == [
        "Webhook service orders is disabled",
        "Webhook service orders is well again",
    ]
    assert told == [
        (EventName.SERVICE_DISABLED, "orders"),
        (EventName.SERVICE_RECOVERED, "orders"),
    ]


async def test_a_service_that_failed_is_said_to_be_disabled_once_more_than_that(
    store: Store, alerts: Alerts, post: Post, smtp: Mail, told: Told
) -> None:
    fail(store)
    await alerts.look(NOW + HOUR)
    disable(store, "failing", NOW + 5 * DAY)
    await alerts.look(NOW + 5 * DAY)
    await alerts.look(NOW + 6 * DAY)
    await Mailer(store, smtp).look()

    assert post.subjects == ["Webhook service orders fails", "Webhook service orders is disabled"]
    assert "every attempt failed for 5 days" in post.mails[1].get_content()
    assert [event for event, _ in told] == [EventName.SERVICE_DISABLED]


async def test_of_a_deleted_service_nobody_hears_that_it_is_well(
    store: Store, alerts: Alerts, told: Told
) -> None:
    disable(store)
    await alerts.look(NOW)
    change(store, state="deleted")
    await alerts.look(NOW + MINUTE)
    await alerts.look(NOW + HOUR)

    assert [each["subject"] for each in waiting_mails(store.mails)] == [
        "Webhook service orders is disabled"
    ]
    assert store.alerts.count_documents({}) == 0
    assert len(told) == 1


@pytest.mark.parametrize("step", ["_tell", "_write_mail"])
async def test_a_process_that_vanishes_between_two_steps_leaves_them_to_the_next_one(
    store: Store,
    alerts: Alerts,
    monkeypatch: pytest.MonkeyPatch,
    told: Told,
    step: str,
) -> None:
    disable(store)

    def vanish(*_: object) -> None:
        raise LimitsDown("gone")

    with monkeypatch.context() as patch:
        patch.setattr(alerts, step, vanish)
        with pytest.raises(LimitsDown):
            await alerts.look(NOW)

    await alerts.look(NOW + MINUTE)
    await alerts.look(NOW + 2 * MINUTE)

    assert len(waiting_mails(store.mails)) == 1
    assert len(told) == 1


async def test_two_processes_at_once_make_one_alert(
    store: Store, alerts: Alerts, refused: list[str]
) -> None:
    disable(store)
    other = new(store, [], refused)

    await asyncio.gather(alerts.look(NOW), other.look(NOW))
    await asyncio.gather(alerts.look(NOW), other.look(NOW))

    assert len(waiting_mails(store.mails)) == 1


async def test_operators_hear_of_refused_credentials_and_of_dead_requests(
    store: Store, alerts: Alerts, refused: list[str], post: Post, smtp: Mail
) -> None:
    refused.append("usps")
    store.dead.insert_one({"_id": "one", "at": NOW, "slug": "ups", "reason": "given_up"})
    await alerts.look(NOW + MINUTE)
    store.dead.insert_one({"_id": "two", "at": NOW + HOUR, "slug": "ups", "reason": "given_up"})
    await alerts.look(NOW + HOUR)
    refused.clear()
    await alerts.look(NOW + 2 * HOUR)
    await alerts.look(NOW + 3 * HOUR)
    for hours in (25, 26, 27):
        await alerts.look(NOW + hours * HOUR)
    await Mailer(store, smtp).look()

    assert sorted(post.to(OPERATORS)) == [
        "Credentials of usps are refused",
        "Credentials of usps are taken again",
        "No more requests are dead",
        "Requests are dead",
    ]
    assert post.to(SHOP) == []


async def test_an_account_hears_that_deliveries_are_given_up(
    store: Store, alerts: Alerts, post: Post, smtp: Mail
) -> None:
    for minutes in (0, 5, 10):
        note_given_up(store.alerts, "shop", 500, NOW + minutes * MINUTE)
        await alerts.look(NOW + minutes * MINUTE)
    await Mailer(store, smtp).look()

    assert post.to(SHOP) == ["Deliveries of shop are given up"]


async def test_without_a_mail_server_the_log_and_the_events_say_it(
    store: Store, told: Told, refused: list[str], written: Callable[[], list[dict[str, Any]]]
) -> None:
    disable(store)

    await new(store, told, refused, by_mail=False).look(NOW)

    assert waiting_mails(store.mails) == []
    assert [event for event, _ in told] == [EventName.SERVICE_DISABLED]
    [line] = [each for each in written() if each["event"] == "alert is raised"]
    assert (line["alert"], line["account"], line["why"]) == ("service orders", "shop", "gone")


async def test_while_mongodb_is_away_a_look_says_so_and_is_no_defect(
    alerts: Alerts, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(store)

    def vanish(_: Document) -> None:
        raise AutoReconnect("gone")

    monkeypatch.setattr(alerts_module, "trouble_of", vanish)

    with pytest.raises(ResultsDown):
        await alerts.look()
