"""The shape of PostNord's answers, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec


class Location(
    msgspec.Struct,
    rename={"code": "countryCode", "postal_code": "postcode", "shown": "displayName"},
):
    """Where something happened."""

    name: str | None = None
    shown: str | None = None
    city: str | None = None
    postal_code: str | None = None
    code: str | None = None
    country: str | None = None


class Event(
    msgspec.Struct,
    rename={
        "at": "eventTime",
        "what": "eventDescription",
        "place": "location",
        "status_v7": "eventStatus",
    },
):
    """One scan, or a notice. Version 7 calls its status otherwise."""

    at: str | None = None
    what: str | None = None
    status: str | None = None
    status_v7: str | None = None
    place: Location | None = None


class Reference(msgspec.Struct):
    """Another number by which an item or a shipment goes."""

    value: str | None = None


class Acceptor(msgspec.Struct):
    """Who took the parcel."""

    name: str | None = None


class Item(
    msgspec.Struct,
    rename={
        "number": "itemId",
        "expected": "estimatedTimeOfArrival",
        "delivered": "deliveryDate",
        "returned": "returnDate",
        "stated": "statedWeight",
        "assessed": "assessedWeight",
    },
):
    """One parcel."""

    number: str | None = None
    status: str | None = None
    expected: str | None = None
    delivered: str | None = None
    returned: str | None = None
    acceptor: Acceptor | None = None
    events: list[Event] | None = None
    references: list[Reference] | None = None
    stated: Any = None
    assessed: Any = None


class Address(msgspec.Struct):
    """Of a party, as far as it is read."""

    city: str | None = None


class Party(msgspec.Struct):
    """The sender or the addressee."""

    address: Address | None = None


class Shipment(
    msgspec.Struct,
    rename={
        "number": "shipmentId",
        "expected": "estimatedTimeOfArrival",
        "references": "shipmentReference",
    },
):
    """What was sent together."""

    number: str | None = None
    expected: str | None = None
    consignor: Party | None = None
    consignee: Party | None = None
    references: list[Reference] | None = None
    items: list[Item] | None = None
    service: Any = None


class Fault(msgspec.Struct, rename={"code": "faultCode", "said": "explanationText"}):
    """Why there is no answer."""

    code: str | None = None
    said: str | None = None


class Faults(msgspec.Struct):
    """The list of them."""

    faults: list[Fault] | None = None


class Told(msgspec.Struct, rename={"faults": "compositeFault"}):
    """Shipments, or faults."""

    shipments: list[Shipment] | None = None
    faults: Faults | None = None


class Reply(
    msgspec.Struct, rename={"told": "TrackingInformationResponse", "faults": "compositeFault"}
):
    """The whole answer; faults may stand at its top, in version 7 the shipments too."""

    told: Told | None = None
    shipments: list[Shipment] | None = None
    faults: Faults | None = None
