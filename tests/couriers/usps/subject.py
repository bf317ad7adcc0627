"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import usps


def answer(events: list[Event]) -> object:
    listed = rows(events, "eventTimestamp", "eventType", "eventCode")
    return {"trackingNumber": NUMBER, "trackingEvents": listed}


SUBJECT = Subject(usps, answer, coded("01", "43"), ("01", "43", "03", "21", "??", ""))
