"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import inpost_paczkomaty


def answer(events: list[Event]) -> object:
    # An event has no words of its own: its agency takes those of the tests.
    listed = rows(events, "datetime", "agency", "status")
    return {"tracking_number": NUMBER, "status": "other", "tracking_details": listed}


SUBJECT = Subject(
    inpost_paczkomaty,
    answer,
    coded("delivered"),
    ("delivered", "returned_to_sender", "claimed", ""),
    in_english=False,
)
