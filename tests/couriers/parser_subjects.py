"""Every courier module with answers as its courier might give: what the generic tests run over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from couriers import (
    australia_post,
    bring,
    canada_post,
    dhl,
    dpd_uk,
    fedex,
    gls,
    hong_kong_post,
    json_feed,
    la_poste_colissimo,
    postnl,
    postnord,
    royal_mail,
    ups,
    usps,
)

NUMBER = "15509990000007"

Event = tuple[str, str, str]
"""Its time, its text, a code or none."""


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def as_xml(value: object, name: str = "answer") -> bytes:
    """Write what JSON could hold as XML: members are elements, lists are repeated ones."""
    return _element(name, value).encode()


def _element(name: str, value: object) -> str:
    match value:
        case dict():
            inside = "".join(_element(key, each) for key, each in value.items())
        case list():
            return "".join(_element(name, each) for each in value) or f"<{name}/>"
        case None:
            inside = ""
        case _:
            inside = escape("".join(each for each in str(value) if each.isprintable()))
    return f"<{name}>{inside}</{name}>"


@dataclass(frozen=True)
class Subject:
    """A module; an answer out of events; which of them deliver; codes, known ones and others."""

    module: ModuleType
    answer: Callable[[list[Event]], object]
    delivered: Callable[[Event], bool]
    codes: tuple[str, ...]
    encode: Callable[[Any], bytes] = as_json

    @property
    def reads_codes(self) -> bool:
        """Whether its courier gives codes, and the module has a table of them."""
        return "" in self.codes[1:]

    @property
    def names(self) -> list[str]:
        """Every name that the module reads in its courier's answers."""
        if self.module in ELEMENTS:
            return sorted(ELEMENTS[self.module])
        own = getattr(
            self.module, "answer", self.module
        )  # where the shapes have a file of their own
        shapes = [*vars(self.module).values(), *vars(own).values()]
        structs = [shape for shape in shapes if isinstance(shape, msgspec.StructMeta)]
        return sorted({name for shape in structs for name in shape.__struct_encode_fields__})


ELEMENTS = {
    canada_post: {
        "tracking-detail",
        "pin",
        "significant-events",
        "occurrence",
        "event-identifier",
        "event-date",
        "event-time",
        "event-time-zone",
        "event-description",
        "event-site",
        "event-province",
        "signatory-name",
        "messages",
        "message",
        "code",
        "description",
    }
}
"""The same of modules that read XML."""


def rows(events: list[Event], at: str, what: str, code: str) -> list[dict[str, str]]:
    return [{at: time, what: said, code: coded} for time, said, coded in events]


def usps_reply(events: list[Event]) -> object:
    listed = rows(events, "eventTimestamp", "eventType", "eventCode")
    return {"trackingNumber": NUMBER, "trackingEvents": listed}


def dpd_reply(events: list[Event]) -> object:
    return {"data": rows(events, "eventDate", "eventText", "eventCode")}


def hong_kong_reply(events: list[Event]) -> object:
    listed = [{"eventDateTime": at, "status": what} for at, what, _ in events]
    return {"items": [{"itemNo": NUMBER, "events": listed}]}


def feed_reply(events: list[Event]) -> object:
    return {"checkpoints": rows(events, "checkpoint_time", "message", "tag")}


def ups_reply(events: list[Event]) -> object:
    listed = []
    for at, what, code in events:
        digits = "".join(character for character in at if character.isdigit())
        status = {"statusCode": code, "description": what}
        listed.append({"date": digits[:8], "time": digits[8:], "status": status})
    package = {"trackingNumber": NUMBER, "activity": listed}
    return {"trackResponse": {"shipment": [{"package": [package]}]}}


def fedex_reply(events: list[Event]) -> object:
    result = {"scanEvents": rows(events, "date", "eventDescription", "eventType")}
    complete = {"trackingNumber": NUMBER, "trackResults": [result]}
    return {"output": {"completeTrackResults": [complete]}}


def dhl_reply(events: list[Event]) -> object:
    listed = rows(events, "timestamp", "description", "statusCode")
    return {"shipments": [{"id": NUMBER, "events": listed, "status": {"statusCode": "transit"}}]}


def royal_mail_reply(events: list[Event]) -> object:
    listed = rows(events, "eventDateTime", "eventName", "eventCode")
    return {"mailPieces": {"mailPieceId": NUMBER, "events": listed}}


def canada_post_reply(events: list[Event]) -> object:
    listed = [
        {
            "event-date": at[:10],
            "event-time": at[11:],
            "event-description": what,
            "event-identifier": code,
        }
        for at, what, code in events
    ]
    return {"tracking-detail": {"pin": NUMBER, "significant-events": {"occurrence": listed}}}


def australia_post_reply(events: list[Event]) -> object:
    listed = [{"date": at, "description": what} for at, what, _ in events]
    item = {"article_id": NUMBER, "events": listed}
    return {"tracking_results": [{"tracking_id": NUMBER, "trackable_items": [item]}]}


def la_poste_reply(events: list[Event]) -> object:
    listed = rows(events, "date", "label", "code")
    return {"returnCode": 200, "shipment": {"idShip": NUMBER, "event": listed}}


def postnord_reply(events: list[Event]) -> object:
    item = {"itemId": NUMBER, "events": rows(events, "eventTime", "eventDescription", "status")}
    return {"TrackingInformationResponse": {"shipments": [{"items": [item]}]}}


def bring_reply(events: list[Event]) -> object:
    package = {
        "packageNumber": NUMBER,
        "eventSet": rows(events, "dateIso", "description", "status"),
    }
    return {"consignmentSet": [{"packageSet": [package]}]}


def gls_reply(events: list[Event]) -> object:
    listed = rows(events, "eventDateTime", "description", "code")
    return {"parcels": [{"unitno": NUMBER, "status": "FINAL", "events": listed}]}


def postnl_reply(events: list[Event]) -> object:
    listed = [
        {"TimeStamp": f"{at[8:10]}-{at[5:7]}-{at[:4]} {at[11:]}", "Description": what, "Code": code}
        for at, what, code in events
    ]
    return {"CompleteStatus": {"Shipment": {"Barcode": NUMBER, "Event": listed}}}


def coded(*codes: str) -> Callable[[Event], bool]:
    return lambda event: event[2] in codes


def said(*sentences: str) -> Callable[[Event], bool]:
    return lambda event: event[1].lower() in sentences


DPD = coded("001"), said("your parcel has been delivered")

SUBJECTS = [
    Subject(usps, usps_reply, coded("01", "43"), ("01", "43", "03", "21", "??", "")),
    Subject(
        dpd_uk,
        dpd_reply,
        lambda event: any(rule(event) for rule in DPD),
        ("001", "009", "015", "??", ""),
    ),
    Subject(hong_kong_post, hong_kong_reply, said("delivered"), ("",)),
    Subject(json_feed, feed_reply, coded("Delivered"), ("Delivered", "InTransit", "Exception")),
    Subject(ups, ups_reply, coded("011", "026"), ("011", "005", "155", "")),
    Subject(fedex, fedex_reply, coded("DL"), ("DL", "OD", "DE", "??", "")),
    Subject(dhl, dhl_reply, coded("delivered"), ("delivered", "transit", "failure", "unknown", "")),
    Subject(
        royal_mail,
        royal_mail_reply,
        coded("EVKSP", "EVPLC"),
        ("EVKSP", "EVPLC", "EVKNA", "EVXXX", ""),
    ),
    Subject(
        canada_post,
        canada_post_reply,
        coded("1496", "1408"),
        ("1496", "1408", "0174", "20", "9999", ""),
        as_xml,
    ),
    Subject(australia_post, australia_post_reply, said("delivered"), ("",)),
    Subject(
        la_poste_colissimo, la_poste_reply, coded("DI1"), ("DI1", "DI2", "DI3", "ET1", "??", "")
    ),
    Subject(
        postnord, postnord_reply, coded("DELIVERED"), ("DELIVERED", "OTHER", "EN_ROUTE", "?", "")
    ),
    Subject(bring, bring_reply, coded("DELIVERED"), ("DELIVERED", "COLLECTED", "RETURN", "?", "")),
    Subject(gls, gls_reply, coded("DELIVD.POD"), ("DELIVD.POD", "DELIVD.X", "INTIAL.NORMAL", "")),
    Subject(
        postnl, postnl_reply, coded("I01", "01I"), ("I01", "01I", "J63", "I06", "J01", "?", "")
    ),
]


def without_a_subject(modules: Iterable[object]) -> list[str]:
    """Name the modules that the generic tests would miss."""
    return sorted(str(each) for each in modules if each not in [one.module for one in SUBJECTS])
