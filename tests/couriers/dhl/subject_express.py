"""Answers as MyDHL might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded

from couriers import dhl


def answer(events: list[Event]) -> object:
    listed = [
        {"date": at[:10], "time": at[11:], "description": what, "typeCode": code}
        for at, what, code in events
    ]
    shipment = {"shipmentTrackingNumber": NUMBER, "status": "Success", "events": listed}
    return {"shipments": [shipment]}


SUBJECT = Subject(dhl, answer, coded("OK", "DD"), ("OK", "DD", "WC", "RT", "CS", "RR", "??", ""))
