"""A value in another form of the same meaning is read; one without a certain meaning is not."""

from __future__ import annotations

import json

import msgspec
import pytest
from parser_subjects import NUMBER, SUBJECTS, Subject

from couriers import dpd_uk, json_feed
from couriers.reading.answer import decode
from tracking.errors import UnreadableAnswer


class Inner(msgspec.Struct):
    text: str | None = None
    count: int | None = None


class Outer(msgspec.Struct):
    inner: Inner | None = None
    several: list[Inner] | None = None
    either: list[Inner] | Inner | None = None
    code: str | int | None = None


def read(value: object) -> Outer:
    return decode(json.dumps(value).encode(), Outer)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"inner": {"text": 7}}, {"inner": {"text": "7"}}),
        ({"inner": {"text": 74700, "count": "12"}}, {"inner": {"text": "74700", "count": 12}}),
        ({"inner": {"text": {}}}, {"inner": {}}),
        ({"inner": {"text": []}}, {"inner": {}}),
        ({"inner": ""}, {}),
        ({"inner": []}, {}),
        ({"inner": [{"text": "a"}]}, {"inner": {"text": "a"}}),
        ({"several": {"text": "a"}}, {"several": [{"text": "a"}]}),
        ({"several": [None, {"text": 1}]}, {"several": [{"text": "1"}]}),
        ({"several": ""}, {}),
        ({"several": {}}, {}),
        ({"several": [], "inner": ""}, {"several": []}),
        ({"either": {"text": 1}}, {"either": {"text": "1"}}),
        ({"either": [{"text": 1}]}, {"either": [{"text": "1"}]}),
        ({"code": 7, "inner": ""}, {"code": 7}),
    ],
)
def test_another_form_of_the_same_meaning_is_read(given: object, meant: object) -> None:
    assert read(given) == read(meant)


@pytest.mark.parametrize(
    "given",
    [
        {"inner": "a sentence"},
        {"inner": [{"text": "a"}, {"text": "b"}]},
        {"several": "a sentence"},
        {"several": [{"text": "a"}, "b"]},
        {"inner": {"text": ["a", "b"]}},
        {"inner": {"text": {"a": "b"}}},
        {"inner": {"text": True}},
        {"inner": {"count": "twelve"}},
        {"inner": {"count": 1.5}},
        {"code": {"a": "b"}},
        [1],
        "text",
        None,
    ],
)
def test_what_has_no_certain_meaning_is_not(given: object) -> None:
    with pytest.raises(UnreadableAnswer):
        read(given)


EVENTS = [("2026-01-05T08:15:00", "one", "77"), ("2026-01-06T09:15:00", "two", "78")]


def as_numbers(value: object) -> object:
    """Write every text of digits as a number, but for those that a zero begins."""
    match value:
        case dict():
            return {name: as_numbers(each) for name, each in value.items()}
        case list():
            return [as_numbers(each) for each in value]
        case str() if value.isdigit() and value == str(int(value)):
            return int(value)
    return value


def without_lists_of_one(value: object) -> object:
    match value:
        case dict():
            return {name: without_lists_of_one(each) for name, each in value.items()}
        case [single]:
            return without_lists_of_one(single)
        case list():
            return [without_lists_of_one(each) for each in value]
    return value


# The feed is ours: its form is fixed.
COURIERS_JSON = [each for each in SUBJECTS if not each.elements and each.module is not json_feed]
# An object instead of a list of events is DPD's way to tell of a parcel without events.
LISTING = [each for each in COURIERS_JSON if each.module is not dpd_uk]


def parse(subject: Subject, value: object) -> object:
    return subject.module.parse(200, {}, json.dumps(value).encode(), NUMBER)


@pytest.mark.parametrize("subject", COURIERS_JSON, ids=lambda each: each.module.__name__)
def test_every_courier_may_write_texts_of_digits_as_numbers(subject: Subject) -> None:
    usual = subject.answer(EVENTS)

    assert parse(subject, as_numbers(usual)) == parse(subject, usual)


@pytest.mark.parametrize("subject", LISTING, ids=lambda each: each.module.__name__)
@pytest.mark.parametrize("count", [1, 2])
def test_every_courier_may_write_a_list_of_one_as_the_one(subject: Subject, count: int) -> None:
    usual = subject.answer(EVENTS[:count])

    assert parse(subject, without_lists_of_one(usual)) == parse(subject, usual)
