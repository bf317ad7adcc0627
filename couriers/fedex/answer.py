"""The shape of FedEx' answers, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec


class Address(
    msgspec.Struct,
    rename={
        "state": "stateOrProvinceCode",
        "postal_code": "postalCode",
        "code": "countryCode",
        "name": "countryName",
    },
):
    """Where something happened, or a party is."""

    city: str | None = None
    state: str | None = None
    postal_code: str | None = None
    code: str | None = None
    name: str | None = None


class Event(
    msgspec.Struct,
    rename={
        "kind": "eventType",
        "derived": "derivedStatusCode",
        "what": "eventDescription",
        "reason": "exceptionCode",
        "why": "exceptionDescription",
        "place": "scanLocation",
    },
):
    """One event; `reason` and `why` tell how an exception came about."""

    date: str | None = None
    kind: str | None = None
    derived: str | None = None
    what: str | None = None
    reason: str | None = None
    why: str | None = None
    place: Address | None = None


class Latest(msgspec.Struct, rename={"derived": "derivedCode"}):
    """The status of the parcel as a whole."""

    code: str | None = None
    derived: str | None = None
    description: str | None = None


class Time(msgspec.Struct, rename={"kind": "type", "at": "dateTime"}):
    """One of several times, told apart by its kind (ESTIMATED_DELIVERY, …)."""

    kind: str | None = None
    at: str | None = None


class Window(msgspec.Struct):
    """A span of time that FedEx names; only its end is read."""

    ends: str | None = None


class Frame(msgspec.Struct):
    """When it should arrive, as a window."""

    window: Window | None = None


class Receipt(msgspec.Struct, rename={"signed": "signedByName", "received": "receivedByName"}):
    """Who received the parcel."""

    signed: str | None = None
    received: str | None = None


class Party(msgspec.Struct):
    """The sender or the addressee."""

    address: Address | None = None


class Error(msgspec.Struct):
    """Why there is no result; also inside a 200."""

    code: str | None = None
    message: str | None = None


class NumberInfo(msgspec.Struct, rename={"number": "trackingNumber"}):
    """The number a result is about."""

    number: str | None = None


class Result(
    msgspec.Struct,
    rename={
        "info": "trackingNumberInfo",
        "latest": "latestStatusDetail",
        "scans": "scanEvents",
        "times": "dateAndTimes",
        "frame": "estimatedDeliveryTimeWindow",
        "receipt": "deliveryDetails",
        "shipper": "shipperInformation",
        "recipient": "recipientInformation",
        "package": "packageDetails",
        "service": "serviceDetail",
        "more": "additionalTrackingInfo",
    },
):
    """One parcel; a number that was used again has several."""

    info: NumberInfo | None = None
    latest: Latest | None = None
    scans: list[Event] | None = None
    times: list[Time] | None = None
    frame: Frame | None = None
    receipt: Receipt | None = None
    shipper: Party | None = None
    recipient: Party | None = None
    package: Any = None
    service: Any = None
    more: Any = None
    error: Error | None = None

    @property
    def is_told(self) -> bool:
        """False where neither a scan nor a status says anything of the parcel."""
        now = self.latest
        told = now is not None and bool(now.code or now.derived or now.description)
        return bool(self.scans) or (told and self.error is None)


class Complete(msgspec.Struct, rename={"number": "trackingNumber", "results": "trackResults"}):
    """The results of one number that was asked for."""

    number: str | None = None
    results: list[Result] | None = None


class Output(msgspec.Struct, rename={"complete": "completeTrackResults"}):
    """The list of them."""

    complete: list[Complete] | None = None


class Reply(msgspec.Struct):
    """The whole answer."""

    output: Output | None = None
    errors: list[Error] | None = None
