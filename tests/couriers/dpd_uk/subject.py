"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import WHOLE, Event, Subject, coded, rows, said

from couriers import dpd_uk


def answer(events: list[Event]) -> object:
    return {"data": rows(events, "eventDate", "eventText", "eventCode")}


RULES = coded("001"), said("your parcel has been delivered")
NO_CODE = said(*WHOLE)
SUBJECT = Subject(
    dpd_uk,
    answer,
    lambda event: any(rule(event) for rule in RULES) or (not event[2] and NO_CODE(event)),
    ("001", "009", "015", "??", ""),
)
