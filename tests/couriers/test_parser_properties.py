"""What holds for every courier module, whatever its courier answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers import (
    dhl,
    dpd_uk,
    fedex,
    fedex_answer,
    hong_kong_post,
    json_feed,
    royal_mail,
    ups,
    ups_answer,
    usps,
    usps_answer,
)
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    InvalidNumber,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
)

NUMBER = "15509990000007"

STATUSES = st.sampled_from([200, 200, 200, 204, 207, 301, 400, 401, 403, 404, 429, 500, 503])
HEADERS = st.dictionaries(st.sampled_from(["retry-after", "date", "content-type"]), st.text())
TIMES = st.sampled_from(
    ["2026-01-05T08:15:00", "2026-01-05 08:15:00", "2026-01-06T23:59:00", "2025-12-31T00:00:00"]
)
WORDS = st.lists(
    st.sampled_from(
        ["Delivered", "delivered", "not", "to", "shop", "your parcel", "has been", "left", "sender"]
    ),
    max_size=6,
).map(" ".join)


@dataclass(frozen=True)
class Subject:
    """A module; an answer out of events (time, text, a code or none); which of them deliver."""

    module: ModuleType
    answer: Callable[[list[tuple[str, str, str]]], object]
    delivered: Callable[[tuple[str, str, str]], bool]
    codes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Every name that the module reads in its courier's JSON."""
        shapes = [*vars(self.module).values(), *vars(SHAPES.get(self.module, self.module)).values()]
        structs = [shape for shape in shapes if isinstance(shape, msgspec.StructMeta)]
        return sorted({name for shape in structs for name in shape.__struct_encode_fields__})


def usps_reply(events: list[tuple[str, str, str]]) -> object:
    rows = [
        {"eventTimestamp": at, "eventType": what, "eventCode": code} for at, what, code in events
    ]
    return {"trackingNumber": NUMBER, "trackingEvents": rows}


def dpd_reply(events: list[tuple[str, str, str]]) -> object:
    return {
        "data": [{"eventDate": at, "eventText": w, "eventCode": code} for at, w, code in events]
    }


def hong_kong_reply(events: list[tuple[str, str, str]]) -> object:
    rows = [{"eventDateTime": at, "status": what} for at, what, _ in events]
    return {"items": [{"itemNo": NUMBER, "events": rows}]}


def feed_reply(events: list[tuple[str, str, str]]) -> object:
    rows = [{"checkpoint_time": at, "message": what, "tag": code} for at, what, code in events]
    return {"checkpoints": rows}


def ups_reply(events: list[tuple[str, str, str]]) -> object:
    rows = []
    for at, what, code in events:
        digits = "".join(character for character in at if character.isdigit())
        status = {"statusCode": code, "description": what}
        rows.append({"date": digits[:8], "time": digits[8:], "status": status})
    package = {"trackingNumber": NUMBER, "activity": rows}
    return {"trackResponse": {"shipment": [{"package": [package]}]}}


def fedex_reply(events: list[tuple[str, str, str]]) -> object:
    rows = [{"date": at, "eventDescription": w, "eventType": code} for at, w, code in events]
    complete = {"trackingNumber": NUMBER, "trackResults": [{"scanEvents": rows}]}
    return {"output": {"completeTrackResults": [complete]}}


def dhl_reply(events: list[tuple[str, str, str]]) -> object:
    rows = [{"timestamp": at, "description": w, "statusCode": code} for at, w, code in events]
    return {"shipments": [{"id": NUMBER, "events": rows, "status": {"statusCode": "transit"}}]}


def royal_mail_reply(events: list[tuple[str, str, str]]) -> object:
    rows = [{"eventDateTime": at, "eventName": w, "eventCode": code} for at, w, code in events]
    return {"mailPieces": {"mailPieceId": NUMBER, "events": rows}}


SHAPES = {usps: usps_answer, ups: ups_answer, fedex: fedex_answer}
"""Where a module's shapes have a file of their own."""

SUBJECTS = [
    Subject(
        usps,
        usps_reply,
        lambda event: event[2] in ("01", "43"),
        ("01", "43", "03", "21", "??", ""),
    ),
    Subject(
        dpd_uk,
        dpd_reply,
        lambda event: event[2] == "001" or event[1].lower() == "your parcel has been delivered",
        ("001", "009", "015", "??", ""),
    ),
    Subject(
        hong_kong_post,
        hong_kong_reply,
        lambda event: event[1].lower() == "delivered",
        ("",),
    ),
    Subject(
        json_feed,
        feed_reply,
        lambda event: event[2] == "Delivered",
        ("Delivered", "InTransit", "Exception"),
    ),
    Subject(ups, ups_reply, lambda event: event[2] in ("011", "026"), ("011", "005", "155", "")),
    Subject(fedex, fedex_reply, lambda event: event[2] == "DL", ("DL", "OD", "DE", "??", "")),
    Subject(
        dhl,
        dhl_reply,
        lambda event: event[2] == "delivered",
        ("delivered", "transit", "failure", "unknown", ""),
    ),
    Subject(
        royal_mail,
        royal_mail_reply,
        lambda event: event[2] in ("EVKSP", "EVPLC"),
        ("EVKSP", "EVPLC", "EVKNA", "EVXXX", ""),
    ),
]
EACH = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.module.__name__)

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | TIMES | WORDS
VALUES |= st.sampled_from([NUMBER, "404", "150001", "01", "Delivered", "InTransit"])


def nested(names: list[str]) -> st.SearchStrategy[object]:
    """JSON of the right names and any depth."""
    return st.recursive(
        VALUES,
        lambda deeper: (
            st.lists(deeper, max_size=4)
            | st.dictionaries(st.sampled_from(names), deeper, max_size=6)
        ),
        max_leaves=20,
    )


def read(subject: Subject, status: int, headers: dict[str, str], body: bytes) -> Tracking | None:
    """Run the parser; None for an error of the closed set, anything else fails the test."""
    try:
        told = subject.module.parse(status, headers, body, NUMBER)
    except (AuthFailed, CourierDown, InvalidNumber, RateLimited, RequestRefused, UnreadableAnswer):
        return None
    assert isinstance(told, Tracking)
    return told


def assert_oldest_first(told: Tracking) -> None:
    points = told.checkpoints
    if all(point.checkpoint_utc for point in points):
        keys = [str(point.checkpoint_utc) for point in points]
    else:
        keys = [point.checkpoint_time for point in points]
    assert keys == sorted(keys)


@EACH
@given(status=STATUSES, headers=HEADERS, body=st.binary())
def test_any_bytes_are_an_answer_or_an_error_of_the_closed_set(
    subject: Subject, status: int, headers: dict[str, str], body: bytes
) -> None:
    read(subject, status, headers, body)


@EACH
@given(data=st.data(), status=STATUSES)
def test_any_json_of_the_right_names_is_too(
    subject: Subject, data: st.DataObject, status: int
) -> None:
    value = data.draw(nested(subject.names))
    body = json.dumps(value).encode()
    told = read(subject, status, {}, body)

    if told is None:
        return
    assert_oldest_first(told)
    for point in told.checkpoints:
        assert point.checkpoint_time[:10] in body.decode()
        point.message.encode()


@EACH
@given(data=st.data())
def test_events_in_any_order_and_number_come_out_oldest_first_and_undelivered_ones_stay_so(
    subject: Subject, data: st.DataObject
) -> None:
    sentences = WORDS | st.sampled_from(["Your parcel has been delivered", "Delivered"])
    events = data.draw(
        st.lists(
            st.tuples(TIMES, sentences, st.sampled_from(subject.codes)), min_size=1, max_size=8
        )
    )
    told = read(subject, 200, {}, json.dumps(subject.answer(events)).encode())

    assert told is not None
    assert_oldest_first(told)
    written = {at.replace(" ", "T") for at, _, _ in events}
    assert {point.checkpoint_time for point in told.checkpoints} == written
    assert len(told.checkpoints) <= len(events)
    if told.delivered or any(point.tag is Tag.DELIVERED for point in told.checkpoints):
        assert any(subject.delivered(event) for event in events)


@EACH
@given(data=st.data())
def test_repeating_events_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    events = data.draw(
        st.lists(st.tuples(TIMES, WORDS, st.sampled_from(subject.codes)), min_size=1, max_size=5)
    )
    once = read(subject, 200, {}, json.dumps(subject.answer(events)).encode())
    twice = read(subject, 200, {}, json.dumps(subject.answer(events + events)).encode())

    assert once is not None
    assert twice is not None
    assert set(twice.checkpoints) == set(once.checkpoints)
    assert len(twice.checkpoints) == len(once.checkpoints)
