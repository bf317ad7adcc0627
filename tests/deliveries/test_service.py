"""Services: what they want to hear of, and how they are stored."""

from __future__ import annotations

import datetime as dt

import pytest

from service.worker.deliveries.service import (
    Format,
    SealedSecret,
    Service,
    ServiceState,
    Wanted,
    document_of,
    new_service_id,
    service_in,
)
from service.worker.results.change import EventName
from tracking.checkpoint import Tag
from tracking.line import DELIVERY
from tracking.request import Account, Slug

NOW = dt.datetime(2026, 11, 26, 12, 0, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def service(**members: object) -> Service:
    """Make a service with all that it may have."""
    made = {
        "id": "a" * 16,
        "account": Account("shop"),
        "name": "orders",
        "destination": "https://example.com/hook",
        "secrets": (SealedSecret("k2:new"), SealedSecret("k1:old", NOW + HOUR)),
        "made_at": NOW,
        "wanted": Wanted(frozenset({EventName.PARCEL_DELIVERED}), frozenset({Slug("usps")})),
        "headers": {"X-Shop": "1"},
        "format": Format.AFTERSHIP,
        "ordered": True,
        "state": ServiceState.PAUSED,
    }
    return Service(**(made | members))  # type: ignore[arg-type]


def test_a_service_is_read_as_it_was_written() -> None:
    assert service_in(document_of(service())) == service()


def test_the_id_of_a_service_names_a_line_of_deliveries() -> None:
    assert DELIVERY.form.fullmatch(service(id=new_service_id()).line)


def test_a_secret_that_was_replaced_signs_until_its_end() -> None:
    assert service().live_secrets(NOW) == ["k2:new", "k1:old"]
    assert service().live_secrets(NOW + 2 * HOUR) == ["k2:new"]


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Wanted(), True),
        (Wanted(events=frozenset({EventName.PARCEL_CHANGED})), True),
        (Wanted(events=frozenset({EventName.PARCEL_DELIVERED})), False),
        (Wanted(slugs=frozenset({Slug("usps")})), True),
        (Wanted(slugs=frozenset({Slug("ups")})), False),
        (Wanted(tags=frozenset({Tag.IN_TRANSIT})), True),
        (Wanted(tags=frozenset({Tag.DELIVERED}), slugs=frozenset({Slug("usps")})), False),
    ],
)
def test_a_service_takes_what_all_its_filters_let_through(wanted: Wanted, *, takes: bool) -> None:
    assert wanted.takes(EventName.PARCEL_CHANGED, Slug("usps"), Tag.IN_TRANSIT) is takes
