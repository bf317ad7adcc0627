"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

from parser_subject import NUMBER, Event, Subject, coded

from couriers import dhl_germany


def as_attributes(value: object, name: str = "data") -> bytes:
    """Write what JSON could hold as this courier's XML: all values are attributes."""
    return _element(name, value).encode()


def _element(name: str, value: object) -> str:
    members = value if isinstance(value, dict) else {}
    inside = [(key, each) for key, each in members.items() if isinstance(each, dict | list)]
    inside += [(name, each) for each in value] if isinstance(value, list) else []
    plain = {key: each for key, each in members.items() if not isinstance(each, dict | list)}
    written = {"name": name} | {key: _printable(each) for key, each in plain.items()}
    attributes = " ".join(f"{key}={quoteattr(each)}" for key, each in written.items())
    return f"<data {attributes}>{''.join(_element(*each) for each in inside)}</data>"


def _printable(value: object) -> str:
    return "".join(each for each in str(value) if each.isprintable())


def answer(events: list[Event]) -> object:
    listed = [
        {
            "event-timestamp": f"{at[8:10]}.{at[5:7]}.{at[:4]} {at[11:]}",
            "event-status": what,
            "ice": code.partition("/")[0],
            "ric": code.partition("/")[2],
        }
        for at, what, code in events
    ]
    return {"code": "0", "piece-shipment": {"piece-code": NUMBER, "piece-event": listed}}


SUBJECT = Subject(
    dhl_germany,
    answer,
    coded("DLVRD"),
    ("DLVRD", "SRTED", "DSPSD", "RETRN", "ADVIS", "??", ""),
    as_attributes,
    elements={
        "name",
        "code",
        "error",
        "error-status",
        "piece-code",
        "piece-shipment",
        "piece-event",
        "piece-event-list",
        "event-timestamp",
        "status-timestamp",
        "event-status",
        "event-location",
        "event-country",
        "ice",
        "ric",
        "standard-event-code",
        "ruecksendung",
        "delivery-date",
        "recipient-name",
    },
)
