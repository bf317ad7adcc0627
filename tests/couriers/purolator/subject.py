"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, as_xml, coded

from couriers import purolator


def answer(events: list[Event]) -> object:
    listed = [
        {
            "ScanType": code,
            "ScanDate": at[:10],
            "ScanTime": at[11:].replace(":", ""),
            "Description": what,
        }
        for at, what, code in events
    ]
    parcel = {"PIN": {"Value": NUMBER}, "Scans": {"Scan": listed}}
    return {"TrackPackagesByPinResponse": {"TrackingInformation": parcel}}


SUBJECT = Subject(
    purolator,
    answer,
    coded("Delivery"),
    ("Delivery", "Undeliverable", "OnDelivery", "Other", ""),
    as_xml,
    elements={
        "TrackPackagesByPinResponse",
        "TrackingInformation",
        "PIN",
        "Value",
        "Scan",
        "ScanType",
        "ScanDate",
        "ScanTime",
        "Description",
        "Comment",
        "Depot",
        "Name",
        "ScanDetails",
        "DeliverySignature",
        "Error",
        "Code",
        "ValidationDetail",
        "Key",
        "Tag",
        "Message",
    },
)
