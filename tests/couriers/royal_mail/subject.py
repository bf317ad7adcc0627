"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import royal_mail


def answer(events: list[Event]) -> object:
    listed = rows(events, "eventDateTime", "eventName", "eventCode")
    return {"mailPieces": {"mailPieceId": NUMBER, "events": listed}}


SUBJECT = Subject(
    royal_mail, answer, coded("EVKSP", "EVPLC"), ("EVKSP", "EVPLC", "EVKNA", "EVXXX", "")
)
