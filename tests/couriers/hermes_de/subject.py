"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import hermes_de


def answer(events: list[Event]) -> object:
    listed = rows(events, "timestamp", "description", "code")
    return {"shipmentinfo": [{"shipmentID": NUMBER, "status": listed}]}


SUBJECT = Subject(
    hermes_de,
    answer,
    coded("090000000", "90-3-8", "3500"),
    ("090000000", "90-3-8", "3500", "050001000", "100000002", "9321", "??", ""),
)
