"""The shape of UPS' answers, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec


class Told(msgspec.Struct, rename={"status_code": "statusCode", "kind": "type"}):
    """A status, of an activity or of the package now (whose code may stand in `code`)."""

    kind: str | None = None
    code: str | None = None
    status_code: str | None = None
    description: str | None = None


class Address(
    msgspec.Struct,
    rename={"state": "stateProvince", "postal_code": "postalCode", "code": "countryCode"},
):
    """Where something happened, or a party is."""

    city: str | None = None
    state: str | None = None
    postal_code: str | None = None
    code: str | None = None
    country: str | None = None


class Location(msgspec.Struct):
    """A place; without an address it is only the number of a building."""

    address: Address | str | None = None


class Activity(
    msgspec.Struct, rename={"offset": "gmtOffset", "gmt_date": "gmtDate", "gmt_time": "gmtTime"}
):
    """One scan; its place in time also at Greenwich, in some answers."""

    date: str | None = None
    time: str | None = None
    offset: str | None = None
    gmt_date: str | None = None
    gmt_time: str | None = None
    status: Told | None = None
    location: Location | None = None


class Day(msgspec.Struct, rename={"kind": "type"}):
    """A day of delivery: scheduled (SDD), re-scheduled (RDD) or done (DEL)."""

    kind: str | None = None
    date: str | None = None


class Party(msgspec.Struct, rename={"kind": "type"}):
    """The sender (ORIGIN) or the addressee (DESTINATION)."""

    kind: str | None = None
    address: Address | str | None = None


class Receipt(msgspec.Struct, rename={"by": "receivedBy"}):
    """Who received the parcel. Photos and signatures in it are not read: they prove nothing."""

    by: str | None = None


class Alias(msgspec.Struct):
    """Another number of the same parcel, at a partner's."""

    number: str | None = None


class Package(
    msgspec.Struct,
    rename={
        "number": "trackingNumber",
        "aliases": "alternateTrackingNumber",
        "now": "currentStatus",
        "days": "deliveryDate",
        "receipt": "deliveryInformation",
        "parties": "packageAddress",
        "references": "referenceNumber",
    },
):
    """One parcel."""

    number: str | None = None
    aliases: list[Alias] | None = None
    activity: list[Activity] | None = None
    now: Told | None = None
    days: list[Day] | None = None
    receipt: Receipt | None = None
    parties: list[Party] | None = None
    weight: Any = None
    service: Any = None
    references: Any = None


class Complaint(msgspec.Struct):
    """A warning about a number, or an error."""

    code: str | None = None
    message: str | None = None


class Shipment(msgspec.Struct, rename={"number": "inquiryNumber"}):
    """What belongs to the number that was asked for."""

    number: str | None = None
    package: list[Package] | None = None
    warnings: list[Complaint] | None = None


class Shipments(msgspec.Struct):
    """The list of them."""

    shipment: list[Shipment] | None = None


class Errors(msgspec.Struct):
    """Why there is no answer."""

    errors: list[Complaint] | None = None


class Reply(msgspec.Struct, rename={"told": "trackResponse", "failed": "response"}):
    """The whole answer: one of the two."""

    told: Shipments | None = None
    failed: Errors | None = None
