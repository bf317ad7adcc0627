"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import Event, Subject, coded, rows

from couriers import json_feed


def answer(events: list[Event]) -> object:
    return {"checkpoints": rows(events, "checkpoint_time", "message", "tag")}


SUBJECT = Subject(json_feed, answer, coded("Delivered"), ("Delivered", "InTransit", "Exception"))
