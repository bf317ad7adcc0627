"""What pages of services, deliveries, the inbox and the proof ask of MongoDB, all by an index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pymongo
import pytest
from mongo_questions import Asked, plan_of
from webhook_ground import (
    NOTED_AT,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
)

from service.config.load import load
from service.config.schema import Beanstalkd
from service.operator import deliveries, delivery_acts, inbox, proof, service_view
from service.operator.audit import Operator
from service.operator.deliveries import Which
from service.operator.services import Services
from service.worker.deliveries.delivery import DeliveryState
from service.worker.results.change import EventName
from service.worker.results.database import Collections, Document, Names, indexes_for, make_indexes
from tracking.request import MAIN, Account

COUNTED = {"services", "events", "deliveries", "attempts", "mails", "alerts", "statistics"}


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked()


@pytest.fixture(scope="module")
def stores(stack: Any, asked: Asked) -> Iterator[Collections]:
    uri = stack.mongodb.url
    with pymongo.MongoClient[Document](uri, event_listeners=[asked], tz_aware=True) as client:
        names = Names(uri, "test_hooks_questions")
        made = Collections(client, names)
        for name in COUNTED & indexes_for(names).keys():
            make_indexes(made.named(name), indexes_for(names)[name])
        yield made
        client.drop_database("test_hooks_questions")


@pytest.mark.parametrize("states", [deliveries.RESENDS, deliveries.CANCELS])
@pytest.mark.parametrize("event", [None, EventName.RELAY_REQUEST])
@pytest.mark.parametrize("named", [True, False])
def test_what_an_act_is_for_is_counted_without_reading_it(
    stores: Collections,
    asked: Asked,
    event: EventName | None,
    states: tuple[DeliveryState, ...],
    *,
    named: bool,
) -> None:
    theirs = store_relay(stores, "theirs", account=Account("acme"))
    store_relayed(stores, theirs, state=DeliveryState.DEAD)
    relay = store_relay(stores, f"relay{event}{named}{states[0]}")
    for state in (DeliveryState.DEAD, DeliveryState.OPEN):
        store_relayed(stores, relay, state=state)
    before = stores.deliveries.count_documents({"account": MAIN, "state": {"$in": [*states]}})
    which = Which(MAIN, relay.id if named else None, event=event)
    asked.looks.clear()

    assert deliveries.count_meant(stores, which, states) == (1 if named else before)
    assert "'FETCH'" not in plan_of(stores, asked.looks[-1])
    assert deliveries.count_meant(stores, replace(which, service=theirs.id), states) == 0


def test_each_question_is_answered_by_an_index(stores: Collections, asked: Asked) -> None:
    hook, relay = store_service(stores, "hook"), store_relay(stores)
    one = store_delivery(stores, hook, state=DeliveryState.DEAD)
    store_attempt(stores, one, 1)
    relayed = store_relayed(stores, relay, status=500)
    nowhere = Beanstalkd(("127.0.0.1:1",))
    config = msgspec.structs.replace(load(None, {}, Path("/")).config, beanstalkd=nowhere)
    services, since = Services(config, stores), NOTED_AT - dt.timedelta(days=1)
    behind, state = (NOTED_AT + dt.timedelta(days=1), "A"), DeliveryState.DEAD
    some: list[dict[str, Any]] = [
        {},
        {"behind": behind},
        {"service": hook.id},
        {"state": state, "since": since},
        {"service": hook.id, "state": state, "event": EventName.PARCEL_CHANGED, "behind": behind},
        {"event": EventName.PARCEL_CHANGED, "until": NOTED_AT},
        {"parcel": one.parcel},
    ]
    found: list[dict[str, Any]] = [
        *({}, {"behind": behind}, {"words": ("orders",)}, {"words": ("orders", "paid")}),
        *({"status": 500, "since": since}, {"status": 500, "words": ("paid",), "state": state}),
        *({"service": relay.id, "words": ("paid",)}, {"service": relay.id, "status": 500}),
    ]
    asked.looks.clear()

    for given in some:
        deliveries.deliveries_of(stores, Which(MAIN, **given), 50)
        for states in (deliveries.RESENDS, deliveries.CANCELS):
            deliveries.count_meant(stores, replace(Which(MAIN, **given), behind=None), states)
    for given in found:
        inbox.inbox_of(stores, Which(MAIN, **given), 50)
        which = replace(Which(MAIN, **given), behind=None, event=EventName.RELAY_REQUEST)
        deliveries.count_meant(stores, which)
    for which in (Which(MAIN, **given) for given in (*some, *found)):
        delivery_acts.resend_all(services, Operator(), which, 0.0)
        delivery_acts.cancel_all(services, Operator(), which, 0.0)
    proof.public_key(stores)
    deliveries.show(stores, MAIN, one.id)
    inbox.show(stores, MAIN, relayed.id)
    service_view.rows_of(services, MAIN)
    service_view.whole_members(services, MAIN, "hook")
    service_view.hours_of(stores, [hook.id, relay.id], NOTED_AT)
    service_view.alert_of(stores, hook.id)
    service_view.mails_of(stores, [MAIN, ""], hook.id)
    looks = list(asked.looks)

    assert len(looks) > 80
    for each in looks:
        assert "COLLSCAN" not in plan_of(stores, each), each
