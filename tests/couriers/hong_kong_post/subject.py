"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, WHOLE, Event, Subject, said

from couriers import hong_kong_post


def answer(events: list[Event]) -> object:
    listed = [{"eventDateTime": at, "status": what} for at, what, _ in events]
    return {"items": [{"itemNo": NUMBER, "events": listed}]}


SUBJECT = Subject(hong_kong_post, answer, said(*WHOLE), ("",))
