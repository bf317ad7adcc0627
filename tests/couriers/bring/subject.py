"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import bring


def answer(events: list[Event]) -> object:
    package = {
        "packageNumber": NUMBER,
        "eventSet": rows(events, "dateIso", "description", "status"),
    }
    return {"consignmentSet": [{"packageSet": [package]}]}


SUBJECT = Subject(bring, answer, coded("DELIVERED"), ("DELIVERED", "COLLECTED", "RETURN", "?", ""))
