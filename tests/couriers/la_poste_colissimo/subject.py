"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import la_poste_colissimo


def answer(events: list[Event]) -> object:
    listed = rows(events, "date", "label", "code")
    return {"returnCode": 200, "shipment": {"idShip": NUMBER, "event": listed}}


SUBJECT = Subject(la_poste_colissimo, answer, coded("DI1"), ("DI1", "DI2", "DI3", "ET1", "??", ""))
