"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded

from couriers import postnl


def answer(events: list[Event]) -> object:
    listed = [
        {"TimeStamp": f"{at[8:10]}-{at[5:7]}-{at[:4]} {at[11:]}", "Description": what, "Code": code}
        for at, what, code in events
    ]
    return {"CompleteStatus": {"Shipment": {"Barcode": NUMBER, "Event": listed}}}


SUBJECT = Subject(postnl, answer, coded("I01", "01I"), ("I01", "01I", "J63", "I06", "J01", "?", ""))
