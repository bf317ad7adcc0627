"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, as_xml, coded

from couriers import canada_post


def answer(events: list[Event]) -> object:
    listed = [
        {
            "event-date": at[:10],
            "event-time": at[11:],
            "event-description": what,
            "event-identifier": code,
        }
        for at, what, code in events
    ]
    return {"tracking-detail": {"pin": NUMBER, "significant-events": {"occurrence": listed}}}


SUBJECT = Subject(
    canada_post,
    answer,
    coded("1496", "1408"),
    ("1496", "1408", "0174", "20", "9999", ""),
    as_xml,
    elements={
        "tracking-detail",
        "pin",
        "significant-events",
        "occurrence",
        "event-identifier",
        "event-date",
        "event-time",
        "event-time-zone",
        "event-description",
        "event-site",
        "event-province",
        "signatory-name",
        "messages",
        "message",
        "code",
        "description",
    },
)
