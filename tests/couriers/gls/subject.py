"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import gls


def answer(events: list[Event]) -> object:
    listed = rows(events, "eventDateTime", "description", "code")
    return {"parcels": [{"unitno": NUMBER, "status": "FINAL", "events": listed}]}


SUBJECT = Subject(gls, answer, coded("DELIVD.POD"), ("DELIVD.POD", "DELIVD.X", "INTIAL.NORMAL", ""))
