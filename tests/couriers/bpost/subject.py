"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, as_xml, coded, rows

from couriers import bpost


def answer(events: list[Event]) -> object:
    listed = rows(events, "time", "stateDescription", "stateCode")
    return {"itemTracking": {"itemCode": NUMBER, "stateInfo": listed}}


SUBJECT = Subject(
    bpost,
    answer,
    coded("U01", "U00"),
    ("U01", "U00", "??", ""),
    as_xml,
    elements={
        "itemTracking",
        "itemCode",
        "stateInfo",
        "time",
        "location",
        "stateCode",
        "stateDescription",
        "deliveryTimeWindow",
        "plannedDeliveryDateWindowEnd",
        "cityOrCountryOfdeparture",
        "cityOrCountryOfDestination",
        "systemException",
        "businessException",
        "message",
        "code",
    },
)
