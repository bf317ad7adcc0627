"""The shape of the Postal Service's answers, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec


class Event(
    msgspec.Struct,
    rename={
        "what": "eventType",
        "at": "eventTimestamp",
        "offset": "GMTOffset",
        "country": "eventCountry",
        "city": "eventCity",
        "state": "eventState",
        "zip_code": "eventZIPCode",
        "zip_code_v3": "eventZIP",
        "code": "eventCode",
    },
):
    """One scan. Only what is read is named: the service adds and renames the rest at will."""

    what: str | None = None
    at: str | None = None
    offset: str | None = None
    country: str | None = None
    city: str | None = None
    state: str | None = None
    zip_code: str | int | None = None
    zip_code_v3: str | int | None = None
    name: str | None = None
    code: str | int | None = None


class Detail(msgspec.Struct):
    """One reason; `code` is of the error inventory (150001 …)."""

    code: str | int | None = None
    title: str | None = None


class Error(msgspec.Struct):
    """Why there is no answer, for the whole request or for one item."""

    code: str | int | None = None
    message: str | None = None
    errors: list[Detail] | None = None


class Expectation(msgspec.Struct, rename={"date": "expectedDeliveryDate"}):
    """When the service expects to deliver (v3r2)."""

    date: str | None = None


class Item(
    msgspec.Struct,
    rename={
        "number": "trackingNumber",
        "category": "statusCategory",
        "events": "trackingEvents",
        "expected": "expectedDeliveryTimeStamp",
        "expectation": "deliveryDateExpectation",
        "origin_city": "originCity",
        "origin_state": "originState",
        "destination_city": "destinationCity",
        "destination_state": "destinationState",
        "status_code": "statusCode",
        "mail_class": "mailClass",
    },
):
    """One parcel: v3 answers it bare, v3r2 in a list, and either may hold an error instead."""

    number: str | int | None = None
    status: str | None = None
    category: str | None = None
    events: list[Event] | None = None
    expected: str | None = None
    expectation: Expectation | None = None
    origin_city: str | None = None
    origin_state: str | None = None
    destination_city: str | None = None
    destination_state: str | None = None
    mail_class: Any = None
    status_code: str | int | None = None
    error: Error | str | None = None
