"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, as_xml, coded, rows

from couriers import chronopost_france


def answer(events: list[Event]) -> object:
    listed = rows(events, "eventDate", "eventLabel", "code")
    parcel = {"skybillNumber": NUMBER, "events": listed}
    return {"return": {"errorCode": "0", "listEventInfoComp": parcel}}


SUBJECT = Subject(
    chronopost_france,
    answer,
    coded("D", "D1", "D5"),
    ("D", "D1", "D5", "R", "TA", "SM", "??", ""),
    as_xml,
    elements={
        "return",
        "errorCode",
        "errorMessage",
        "listEventInfoComp",
        "skybillNumber",
        "events",
        "eventDate",
        "eventLabel",
        "code",
        "officeLabel",
        "zipCode",
        "Fault",
        "faultstring",
    },
)
