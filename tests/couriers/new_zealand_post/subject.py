"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded, rows

from couriers import new_zealand_post


def answer(events: list[Event]) -> object:
    listed = rows(events, "event_datetime", "event_description", "event_edifact_code")
    return {"success": True, "results": {"tracking_reference": NUMBER, "tracking_events": listed}}


SUBJECT = Subject(new_zealand_post, answer, coded("22"), ("22", "32", "67", "203", ""))
