"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded

from couriers import ups


def answer(events: list[Event]) -> object:
    listed = []
    for at, what, code in events:
        digits = "".join(character for character in at if character.isdigit())
        status = {"statusCode": code, "description": what}
        listed.append({"date": digits[:8], "time": digits[8:], "status": status})
    package = {"trackingNumber": NUMBER, "activity": listed}
    return {"trackResponse": {"shipment": [{"package": [package]}]}}


SUBJECT = Subject(ups, answer, coded("011", "026"), ("011", "005", "155", ""))
