"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import postnord


def answer(events: list[Event]) -> object:
    item = {"itemId": NUMBER, "events": rows(events, "eventTime", "eventDescription", "status")}
    return {"TrackingInformationResponse": {"shipments": [{"items": [item]}]}}


SUBJECT = Subject(postnord, answer, coded("DELIVERED"), ("DELIVERED", "OTHER", "EN_ROUTE", "?", ""))
