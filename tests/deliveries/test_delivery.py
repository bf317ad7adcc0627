"""Deliveries: their ids, the request for an attempt, and how they are stored."""

from __future__ import annotations

import datetime as dt
import re

from service.worker.deliveries.delivery import (
    MADE,
    ROUND,
    Delivery,
    DeliveryState,
    delivery_id,
    delivery_in,
    document_of,
    event_id,
)
from service.worker.results.change import EventName
from tracking.line import line_of
from tracking.request import Account

NOW = dt.datetime(2026, 11, 26, 12, 0, tzinfo=dt.UTC)


def delivery() -> Delivery:
    """Make one that failed twice in its second round."""
    name = delivery_id("change", EventName.PARCEL_CHANGED, "a" * 16)
    return Delivery(
        id=name,
        service="a" * 16,
        account=Account("shop"),
        event=event_id("change", EventName.PARCEL_CHANGED),
        type=EventName.PARCEL_CHANGED,
        made_at=NOW,
        next_at=NOW + dt.timedelta(minutes=5),
        parcel="usps:9400",
        state=DeliveryState.HELD,
        round=2,
        made=12,
        round_from=10,
        why="timeout",
    )


def test_a_delivery_is_read_as_it_was_written() -> None:
    assert delivery_in(document_of(delivery())) == delivery()


def test_an_event_that_is_noted_twice_makes_one_delivery_for_each_service() -> None:
    names = [delivery_id("change", EventName.PARCEL_CHANGED, each) for each in ("a", "a", "b")]
    assert names[0] == names[1] != names[2]
    assert all(re.fullmatch("[A-Z2-7]{24}", name) for name in names)


def test_the_request_for_an_attempt_says_which_attempt_it_is_for() -> None:
    request = delivery().request()
    assert line_of(request) == "~" + "a" * 16
    assert request.number == delivery().id
    assert request.fields == {ROUND: "2", MADE: "12"}
