"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import fedex


def answer(events: list[Event]) -> object:
    result = {"scanEvents": rows(events, "date", "eventDescription", "eventType")}
    complete = {"trackingNumber": NUMBER, "trackResults": [result]}
    return {"output": {"completeTrackResults": [complete]}}


SUBJECT = Subject(fedex, answer, coded("DL"), ("DL", "OD", "DE", "??", ""))
