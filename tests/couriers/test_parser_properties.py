"""What holds for every courier module, whatever its courier answers."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parser_subjects import NUMBER, SUBJECTS, Subject, without_a_subject
from portion import examples

from couriers import json_feed
from couriers.registry import COURIERS, MODULES
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
)

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


EACH = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.module.__name__)
EACH_FOR_MANY = pytest.mark.parametrize(
    "subject",
    [subject for subject in SUBJECTS if hasattr(subject.module, "track_many")],
    ids=lambda subject: subject.module.__name__,
)

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


def test_no_registered_courier_is_left_out() -> None:
    assert without_a_subject([*COURIERS.values(), *MODULES.values()]) == []


@EACH
@pytest.mark.portion
@examples(10)
@given(status=STATUSES, headers=HEADERS, body=st.binary())
def test_any_bytes_are_an_answer_or_an_error_of_the_closed_set(
    subject: Subject, status: int, headers: dict[str, str], body: bytes
) -> None:
    read(subject, status, headers, body)


@EACH
@pytest.mark.parametrize(
    "body",
    [b'{"tag": "InTransit", "checkpoints": ' + b"[" * 100_000, b'{"tag": "In\xff"}'],
    ids=["nesting without end", "no text"],
)
def test_what_is_no_whole_text_is_unreadable(subject: Subject, body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        subject.module.parse(200, {}, body, NUMBER)


@EACH
@pytest.mark.portion
@examples(10)
@given(data=st.data(), status=STATUSES)
def test_any_json_of_the_right_names_is_too(
    subject: Subject, data: st.DataObject, status: int
) -> None:
    value = data.draw(nested(subject.names))
    body = subject.encode(value)
    told = read(subject, status, {}, body)

    if told is None:
        return
    assert_oldest_first(told)
    for point in told.checkpoints:
        assert point.checkpoint_time[:10] in body.decode()
        point.message.encode()


@EACH
@pytest.mark.portion
@examples(10)
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
    told = read(subject, 200, {}, subject.encode(subject.answer(events)))

    assert told is not None
    assert_oldest_first(told)
    written = {at.replace(" ", "T") for at, _, _ in events}
    assert {point.checkpoint_time for point in told.checkpoints} == written
    assert len(told.checkpoints) <= len(events)
    if told.delivered or any(point.tag is Tag.DELIVERED for point in told.checkpoints):
        assert any(subject.delivered(event) for event in events)


@pytest.mark.parametrize(
    "subject",
    [subject for subject in SUBJECTS if subject.reads_codes],
    ids=lambda subject: subject.module.__name__,
)
def test_a_code_without_a_meaning_is_named_and_means_no_delivery(subject: Subject) -> None:
    events = [("2026-01-05T08:15:00", "", "Q9"), ("2026-01-05T09:15:00", "", "Q9")]
    told = read(subject, 200, {}, subject.encode(subject.answer(events)))

    assert told is not None
    assert told.unknown_codes == ("Q9",)
    assert told.tag is Tag.IN_TRANSIT
    assert [point.raw_tag for point in told.checkpoints] == ["Q9", "Q9"]


@EACH
@pytest.mark.portion
@examples(10)
@given(data=st.data())
def test_repeating_events_changes_nothing(subject: Subject, data: st.DataObject) -> None:
    events = data.draw(
        st.lists(st.tuples(TIMES, WORDS, st.sampled_from(subject.codes)), min_size=1, max_size=5)
    )
    once = read(subject, 200, {}, subject.encode(subject.answer(events)))
    twice = read(subject, 200, {}, subject.encode(subject.answer(events + events)))

    assert once is not None
    assert twice is not None
    assert set(twice.checkpoints) == set(once.checkpoints)
    assert len(twice.checkpoints) == len(once.checkpoints)


def of_one(subject: Subject, status: int, body: bytes) -> Tracking | type[CourierError]:
    try:
        return cast(Tracking, subject.module.parse(status, {}, body, NUMBER))
    except CourierError as failed:
        return type(failed)


def of_many(
    subject: Subject, status: int, body: bytes, *others: str
) -> Tracking | type[CourierError]:
    """Read an answer for one number, or for that one among others."""
    try:
        ends = subject.module.parse_many(status, {}, body, [NUMBER, *others])
    except CourierError as failed:
        return type(failed)
    assert ends.keys() <= {NUMBER, *others}
    end = ends[NUMBER]
    return end if isinstance(end, Tracking) else type(end)


def as_one_of_many(subject: Subject, body: bytes) -> bytes:
    """Put an answer about one number where an answer about several has it."""
    if subject.module is not json_feed:
        return body
    return b'{"%b": %b}' % (NUMBER.encode(), body)


@EACH_FOR_MANY
@pytest.mark.portion
@examples(10)
@given(status=STATUSES, body=st.binary(), numbers=st.sampled_from([[NUMBER], [NUMBER, "OTHER1"]]))
def test_any_bytes_about_several_numbers_are_answers_or_errors_of_the_closed_set(
    subject: Subject, status: int, body: bytes, numbers: list[str]
) -> None:
    try:
        ends = subject.module.parse_many(status, {}, body, numbers)
    except CourierError:
        return
    assert ends.keys() <= set(numbers)


@EACH_FOR_MANY
@pytest.mark.portion
@examples(20)
@given(data=st.data(), status=STATUSES)
def test_any_json_of_the_right_names_is_read_for_one_number_as_if_only_one_could_be_asked(
    subject: Subject, data: st.DataObject, status: int
) -> None:
    body = subject.encode(data.draw(nested(subject.names)))
    found = of_one(subject, status, body)

    if subject.module is not json_feed or (status == 200 and body.strip() != b"null"):
        assert of_many(subject, status, as_one_of_many(subject, body)) == found


@EACH_FOR_MANY
@pytest.mark.portion
@examples(20)
@given(data=st.data())
def test_an_answer_is_read_for_one_number_of_several_as_if_it_had_come_alone(
    subject: Subject, data: st.DataObject
) -> None:
    times = TIMES | st.sampled_from(["soon", ""])
    events = data.draw(
        st.lists(st.tuples(times, WORDS, st.sampled_from(subject.codes)), min_size=1, max_size=5)
    )
    body = subject.encode(subject.answer(events))

    told = of_many(subject, 200, as_one_of_many(subject, body), "OTHER1", "OTHER2")

    assert told == of_one(subject, 200, body)


@EACH_FOR_MANY
@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"%b": "In\xff"}' % NUMBER.encode(), b""],
    ids=["nesting", "no text", "nothing"],
)
def test_what_is_no_whole_text_says_nothing_of_several_numbers(
    subject: Subject, body: bytes
) -> None:
    assert of_many(subject, 200, body, "OTHER1") is UnreadableAnswer
