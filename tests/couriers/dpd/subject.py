"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import Event, Subject, as_xml, coded

from couriers import dpd


def answer(events: list[Event]) -> object:
    listed = [
        {
            "status": code,
            "description": {"content": {"content": what}},
            "date": {"content": f"{at[8:10]}.{at[5:7]}.{at[:4]} {at[11:]}"},
        }
        for at, what, code in events
    ]
    return {"trackingresult": {"statusInfo": listed}}


SUBJECT = Subject(
    dpd,
    answer,
    coded("DELIVERED", "Delivered"),
    ("DELIVERED", "Delivered", "ON_THE_ROAD", "DeliveryFailure", "??", ""),
    as_xml,
    elements={
        "trackingresult",
        "statusInfo",
        "status",
        "label",
        "description",
        "content",
        "statusHasBeenReached",
        "isCurrentStatus",
        "location",
        "date",
        "importantItems",
        "errorItems",
        "Fault",
        "faultstring",
        "authenticationFault",
        "errorMessage",
        "faults",
        "message",
    },
)
