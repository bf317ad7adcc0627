"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, WHOLE, Event, Subject, said

from couriers import australia_post


def answer(events: list[Event]) -> object:
    listed = [{"date": at, "description": what} for at, what, _ in events]
    item = {"article_id": NUMBER, "events": listed}
    return {"tracking_results": [{"tracking_id": NUMBER, "trackable_items": [item]}]}


SUBJECT = Subject(australia_post, answer, said(*WHOLE), ("",))
