"""The shape of PostNL's answers, as far as they are read.

They were XML once: what XML had several of is a list, or one value where there was one; what was
empty is an empty object.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from couriers.reading.answer import text

T = TypeVar("T")

Value = str | int | float | dict[str, Any] | None
_EMPTY = "{}"


def said(value: Value) -> str | None:
    """Read a value as text; None for an empty object, also for one written as text."""
    told = None if isinstance(value, dict) else text(value)
    return None if told == _EMPTY else told


def each(value: list[T] | T | None) -> list[T]:
    """Read what may be several, one or nothing as a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


class Event(msgspec.Struct, rename={"code": "Code", "what": "Description", "at": "TimeStamp"}):
    """One scan."""

    code: Value = None
    what: Value = None
    at: Value = None


class State(
    msgspec.Struct, rename={"code": "StatusCode", "what": "StatusDescription", "at": "TimeStamp"}
):
    """The status of a shipment, now."""

    code: Value = None
    what: Value = None
    at: Value = None


class Address(msgspec.Struct, rename={"kind": "AddressType", "city": "City"}):
    """Of the addressee (01) or the sender (02)."""

    kind: Value = None
    city: Value = None


class Expectation(msgspec.Struct, rename={"until": "ETATo"}):
    """When it should arrive."""

    until: Value = None


class Shipment(
    msgspec.Struct,
    rename={
        "main": "MainBarcode",
        "barcode": "Barcode",
        "day": "DeliveryDate",
        "addresses": "Address",
        "events": "Event",
        "expected": "Expectation",
        "status": "Status",
        "dimension": "Dimension",
        "product": "ProductDescription",
        "reference": "Reference",
    },
):
    """One parcel, with its events only where they were asked for."""

    main: Value = None
    barcode: Value = None
    day: Value = None
    addresses: list[Address] | Address | None = None
    events: list[Event] | Event | None = None
    expected: Expectation | None = None
    status: State | None = None
    dimension: Any = None
    product: Any = None
    reference: Any = None

    @property
    def is_told(self) -> bool:
        """False for an empty object that stands for no shipment."""
        return bool(said(self.barcode) or said(self.main) or self.events or self.status)


class Told(msgspec.Struct, rename={"shipment": "Shipment"}):
    """A shipment, or several of one reference."""

    shipment: list[Shipment] | Shipment | None = None


class Complaint(msgspec.Struct, rename={"message": "Message", "code": "Code"}):
    """A warning about a number, or an error."""

    message: Value = None
    code: Value = None


class Reply(
    msgspec.Struct,
    rename={
        "complete": "CompleteStatus",
        "current": "CurrentStatus",
        "warnings": "Warnings",
        "errors": "Errors",
        "error_list": "Error",
    },
):
    """The whole answer."""

    complete: Told | None = None
    current: Told | None = None
    warnings: list[Complaint] | Complaint | None = None
    errors: list[Complaint] | Complaint | None = None
    error_list: list[Complaint] | Complaint | None = None
