"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import dhl


def answer(events: list[Event]) -> object:
    listed = rows(events, "timestamp", "description", "statusCode")
    return {"shipments": [{"id": NUMBER, "events": listed, "status": {"statusCode": "transit"}}]}


SUBJECT = Subject(
    dhl, answer, coded("delivered"), ("delivered", "transit", "failure", "unknown", "")
)
