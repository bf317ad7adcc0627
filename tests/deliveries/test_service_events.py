"""Events of services reach the other services of their account, each once."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import msgspec
import pytest
from test_service import service

from service.worker.deliveries.service import ServiceState, ServiceType, Wanted, document_of
from service.worker.deliveries.service_events import ServiceEvents
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Document
from tracking.request import Account

NOW = dt.datetime(2026, 11, 26, 12, 0, tzinfo=dt.UTC)
CHANGE = "0123456789abcdef" * 2 + ".gone"
ALL = replace(service(state=ServiceState.ACTIVE), wanted=Wanted())
DISABLED = replace(
    ALL, name="orders", state=ServiceState.DISABLED, disabled_at=NOW, disabled_why="gone"
)


@pytest.fixture
def disabled(store: Store) -> Document:
    """A service that was disabled, beside others of its account."""
    others = [
        DISABLED,
        replace(ALL, id="b" * 16, name="all"),
        replace(ALL, id="c" * 16, name="one", wanted=Wanted(frozenset({EventName.PARCEL_CHANGED}))),
        replace(ALL, id="d" * 16, name="deleted", state=ServiceState.DELETED),
        replace(ALL, id="e" * 16, name="another", account=Account("other")),
        replace(ALL, id="f" * 16, name="relay", type=ServiceType.RELAY),
    ]
    store.services.insert_many([document_of(each) for each in others])
    return store.services.find_one({"_id": DISABLED.id}) or {}


async def test_the_other_services_of_the_account_that_want_it_hear_of_it(
    store: Store, disabled: Document
) -> None:
    await ServiceEvents(store)(EventName.SERVICE_DISABLED, disabled, CHANGE, NOW)

    [event] = store.events.find()
    [delivery] = store.deliveries.find()
    assert (delivery["service"], delivery["event"]) == ("b" * 16, event["_id"])
    assert (delivery["type"], delivery["state"]) == ("service.disabled", "open")
    assert msgspec.json.decode(event["bodies"]["standard"]) == {
        "type": "service.disabled",
        "timestamp": "2026-11-26T12:00:00.000Z",
        "data": {
            "service": "orders",
            "destination": "https://example.com",
            "why": "gone",
            "at": "2026-11-26T12:00:00.000Z",
        },
    }


async def test_what_is_made_again_is_there_once(store: Store, disabled: Document) -> None:
    for _ in range(3):
        await ServiceEvents(store)(EventName.SERVICE_DISABLED, disabled, CHANGE, NOW)
    await ServiceEvents(store)(EventName.SERVICE_RECOVERED, disabled, CHANGE, NOW)

    assert store.events.count_documents({}) == store.deliveries.count_documents({}) == 2


async def test_where_no_other_service_wants_it_nothing_is_stored(
    store: Store, disabled: Document
) -> None:
    store.services.delete_one({"_id": "b" * 16})

    await ServiceEvents(store)(EventName.SERVICE_DISABLED, disabled, CHANGE, NOW)

    assert store.events.count_documents({}) == 0
