"""Totals of each service and day, counted once and for ever, and the digests of a day."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from post_office import waiting_mails
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect
from test_service import service
from webhook_ground import foreign, store_relay, store_relayed

from service.worker.deliveries import totals as totals_module
from service.worker.deliveries.alerts import Addresses
from service.worker.deliveries.delivery import Delivery, DeliveryState, document_of
from service.worker.deliveries.keeper import keep_counts
from service.worker.deliveries.mail import MailText, write_mail
from service.worker.deliveries.service import document_of as service_document
from service.worker.deliveries.standing import DAY, days_of, standing_of
from service.worker.deliveries.totals import Totals, keep_cursor
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Document
from tracking.errors import ResultsDown
from tracking.request import Account

MIDNIGHT = dt.datetime(2026, 11, 26, tzinfo=dt.UTC)
NOON = dt.datetime(2026, 11, 26, 12, 0, tzinfo=dt.UTC)
MINUTE, HOUR = dt.timedelta(minutes=1), dt.timedelta(hours=1)
SERVICE = service(name="orders")


@pytest.fixture
def totals(store: Store) -> Totals:
    store.accounts.insert_one({"_id": "shop", "alerts": "orders@shop.example"})
    store.services.insert_one(service_document(SERVICE))
    return Totals(store, Addresses(by_mail=True, operators="operators@tracker.example"))


def end(store: Store, name: str, state: str, at: dt.datetime, *, to: str = SERVICE.id) -> None:
    made = Delivery(
        id=name,
        service=to,
        account=Account("shop"),
        event="event",
        type=EventName.PARCEL_CHANGED,
        made_at=at - HOUR,
        next_at=at,
    )
    ended = replace(made, state=DeliveryState(state), ended_at=at)
    store.deliveries.insert_one(document_of(ended))


def attempt(store: Store, name: str, at: dt.datetime, failure: str | None = None) -> None:
    row = {"_id": name, "service": SERVICE.id, "account": "shop", "at": at, "failure": failure}
    store.attempts.insert_one(row)


def figures(store: Store, day: dt.datetime = MIDNIGHT) -> dict[str, int]:
    return dict(next((each for _, _, each in days_of(store.statistics, [SERVICE.id], [day])), {}))


async def test_deliveries_that_ended_and_attempts_are_counted(store: Store, totals: Totals) -> None:
    end(store, "one", "delivered", NOON)
    end(store, "two", "delivered", NOON + 9 * MINUTE)
    end(store, "three", "dead", NOON - HOUR)
    end(store, "four", "cancelled", NOON)
    attempt(store, "one.1", NOON - MINUTE, "timeout")
    attempt(store, "one.2", NOON)

    await totals.look(NOON + 12 * MINUTE)

    assert figures(store) == {
        "attempts": 2,
        "cancelled": 1,
        "dead": 1,
        "delivered": 2,
        "failed": 1,
        "retried": 1,
    }


async def test_requests_that_a_relay_took_are_counted_by_when_they_came(
    store: Store, totals: Totals
) -> None:
    await store.prepare()
    relay = store_relay(store)
    for minutes in (0, 3, 9.99, 10):
        request = foreign(relay, received_at=NOON + minutes * MINUTE)
        store_relayed(store, relay, request, state=DeliveryState.COMPLETED, ended_at=NOON)

    await totals.look(NOON + 12 * MINUTE)

    [(_, _, told)] = days_of(store.statistics, [relay.id], [MIDNIGHT])
    assert told == {"requests": 3, "completed": 4}
    await totals.look(NOON + 22 * MINUTE)
    [(_, _, told)] = days_of(store.statistics, [relay.id], [MIDNIGHT])
    assert told == {"requests": 4, "completed": 4}


async def test_ten_minutes_are_counted_once_they_are_over(store: Store, totals: Totals) -> None:
    end(store, "one", "delivered", NOON)

    await totals.look(NOON + 11 * MINUTE)
    assert figures(store) == {}
    await totals.look(NOON + 12 * MINUTE)
    assert figures(store) == {"delivered": 1}


async def test_what_is_counted_again_is_counted_once(store: Store, totals: Totals) -> None:
    end(store, "one", "delivered", NOON)
    for minutes in (12, 22, 23, 32, 42):
        await totals.look(NOON + minutes * MINUTE)
    store.alerts.delete_many({})
    await totals.look(NOON + 52 * MINUTE)

    assert figures(store) == {"delivered": 1}


async def test_what_was_written_late_is_found(store: Store, totals: Totals) -> None:
    end(store, "one", "delivered", NOON)
    await totals.look(NOON + 12 * MINUTE)
    end(store, "two", "delivered", NOON + MINUTE)

    await totals.look(NOON + 22 * MINUTE)

    assert figures(store) == {"delivered": 2}


async def test_what_is_sent_again_counts_on_both_days(store: Store, totals: Totals) -> None:
    end(store, "one", "dead", NOON)
    await totals.look(NOON + HOUR)
    store.deliveries.delete_one({"_id": "one"})
    end(store, "one", "delivered", NOON + DAY)

    await totals.look(NOON + DAY + HOUR)

    assert figures(store) == {"dead": 1}
    assert figures(store, MIDNIGHT + DAY) == {"delivered": 1}


async def test_figures_stay_when_their_rows_are_gone(store: Store, totals: Totals) -> None:
    end(store, "one", "delivered", NOON)
    end(store, "two", "delivered", NOON + HOUR)
    await totals.look(NOON + 2 * HOUR)
    store.deliveries.delete_many({})

    await totals.look(NOON + 3 * DAY)

    assert figures(store) == {"delivered": 2}
    [day] = store.statistics.find()
    assert day["counts"] == {"delivered": 2}
    assert "parts" not in day


@pytest.mark.parametrize("noted", ["until", "day"])
async def test_a_day_that_was_added_up_is_not_counted_once_more(
    store: Store, totals: Totals, monkeypatch: pytest.MonkeyPatch, noted: str
) -> None:
    await totals.look(NOON - HOUR)
    end(store, "one", "delivered", NOON)

    def vanish(alerts: Collection[Document], change: Document) -> None:
        if noted in change:
            raise AutoReconnect("gone")
        keep_cursor(alerts, change)

    monkeypatch.setattr(totals_module, "keep_cursor", vanish)
    with pytest.raises(ResultsDown):
        await totals.look(NOON + 3 * DAY)
    monkeypatch.undo()
    await store.available()
    await totals.look(NOON + 3 * DAY)

    assert figures(store) == {"delivered": 1}
    [day] = store.statistics.find()
    assert "parts" not in day


async def test_of_a_day_that_is_over_an_account_gets_one_digest_of_what_was_not_delivered(
    store: Store, totals: Totals
) -> None:
    await totals.look(NOON - HOUR)
    end(store, "one", "delivered", NOON)
    end(store, "two", "dead", NOON)
    for hours in (1, 11, 13, 14, 23):
        await totals.look(NOON + hours * HOUR)

    [mail] = waiting_mails(store.mails)
    assert mail["to"] == "orders@shop.example"
    assert mail["subject"] == "1 webhook deliveries were not delivered on 2026-11-26"
    assert "orders: 1 dead, 1 delivered" in mail["text"]


async def test_of_a_day_without_dead_deliveries_there_is_no_digest(
    store: Store, totals: Totals
) -> None:
    await totals.look(NOON - HOUR)
    end(store, "one", "delivered", NOON)

    await totals.look(NOON + DAY)

    assert waiting_mails(store.mails) == []


async def test_operators_get_one_digest_of_requests_that_died(store: Store, totals: Totals) -> None:
    await totals.look(NOON - HOUR)
    for name in ("one", "two"):
        record = {"_id": name, "at": NOON, "slug": "usps", "reason": "courier_down"}
        store.dead.insert_one(record)

    await totals.look(NOON + DAY)

    [mail] = waiting_mails(store.mails)
    assert mail["to"] == "operators@tracker.example"
    assert mail["subject"] == "2 requests died on 2026-11-26"
    assert "usps: 2 courier_down" in mail["text"]


async def test_how_webhooks_stand_is_read_for_metrics(store: Store, totals: Totals) -> None:
    end(store, "one", "delivered", NOON)
    end(store, "two", "dead", NOON - DAY)
    await totals.look(NOON + HOUR)
    keep_counts(store.alerts, {SERVICE.id: {"account": "shop", "open": 3, "held": 4}})
    write_mail(store.mails, "one", "orders@shop.example", MailText("Subject", "Text"))

    standing = standing_of(store, NOON + HOUR)

    assert standing.deliveries == {"delivered": 1, "open": 3, "held": 4}
    assert standing.services == {"paused": 1}
    assert standing.mails == 1
