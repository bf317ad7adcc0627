"""The collection `dead`: one suite, run on mongod and on the stand-in that unit tests may use."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import mongomock
import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from store_parcels import START, hours

from devstack.stack import Stack
from service.worker.results import queries
from service.worker.results.connection import Store
from service.worker.results.database import Names, indexes_for, make_indexes
from service.worker.results.dead import (
    MAX_BODY_BYTES,
    Dead,
    Filter,
    count,
    count_by_reason,
    delete,
    find,
    record,
)
from tracking.call import DeadLetter
from tracking.errors import ResultsDown
from tracking.request import Account


@pytest.fixture(params=["mongod", "mongomock"])
def dead(request: pytest.FixtureRequest) -> Iterator[Collection[Any]]:
    client: MongoClient[Any]
    if request.param == "mongomock":
        client = mongomock.MongoClient(tz_aware=True)
        yield client["bucket"]["dead"]
    else:
        uri, database = map(request.getfixturevalue, ("mongo_uri", "database"))
        with MongoClient(uri, tz_aware=True) as client:
            yield client[database]["dead"]


def letter(name: str, **more: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "reason": "bad_json",
        "detail": "nested too deep",
        "body": b'{"type":"requests_flow"}',
        "at": START,
    }
    return DeadLetter(name, **(given | more))


def names(documents: list[dict[str, Any]]) -> list[str]:
    return [document["_id"] for document in documents]


def test_a_letter_becomes_exactly_the_document_of_the_contract(dead: Collection[Any]) -> None:
    full = letter(
        "k1", slug="usps", number="94001", operations=("a", "b"), server="127.0.0.1:11300", job=7
    )

    record(dead, [full])

    assert find(dead, Filter()) == [
        {
            "_id": "k1",
            "slug": "usps",
            "number": "94001",
            "operations": ["a", "b"],
            "reason": "bad_json",
            "detail": "nested too deep",
            "body": '{"type":"requests_flow"}',
            "server": "127.0.0.1:11300",
            "job": 7,
            "at": START,
        }
    ]


def test_recording_twice_is_recording_once(dead: Collection[Any]) -> None:
    record(dead, [letter("k1")])
    record(dead, [letter("k1", reason="later"), letter("k2")])

    assert [each["reason"] for each in find(dead, Filter(ids=("k1",)))] == ["bad_json"]
    assert len(find(dead, Filter())) == 2


def test_recording_nothing_is_nothing(dead: Collection[Any]) -> None:
    record(dead, [])

    assert find(dead, Filter()) == []


def test_a_letter_without_a_time_gets_the_present_one(dead: Collection[Any]) -> None:
    record(dead, [letter("k1", at=None)])

    (document,) = find(dead, Filter())
    assert abs(document["at"] - dt.datetime.now(dt.UTC)) < hours(1)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", ""),
        ('{"a":"é\0"}'.encode(), '{"a":"é\0"}'),
        (b"\xff\xfe\x00bad", b"\xff\xfe\x00bad"),
        (b"x" * 60_000, "x" * MAX_BODY_BYTES),
        (b"x" * (MAX_BODY_BYTES - 1) + "é".encode(), b"x" * (MAX_BODY_BYTES - 1) + b"\xc3"),
    ],
    ids=["empty", "text", "no text", "too long", "cut within a character"],
)
def test_a_body_is_kept_as_text_where_it_is_text_and_never_beyond_its_cap(
    dead: Collection[Any], body: bytes, kept: str | bytes
) -> None:
    record(dead, [letter("k1", body=body)])

    assert [each["body"] for each in find(dead, Filter())] == [kept]


def test_hostile_details_are_always_storable(dead: Collection[Any]) -> None:
    hostile = "\ud800\0" + "é" * 2000
    record(dead, [letter("k1", detail=hostile, slug=hostile, number=hostile)])

    (document,) = find(dead, Filter())
    assert document["detail"] == "?\0" + "é" * 511
    assert document["slug"] == document["number"] == "?\0" + "é" * 49


@pytest.fixture
def six(dead: Collection[Any]) -> Collection[Any]:
    kinds = [
        ("usps", "bad_json"), ("usps", "no_credentials"), ("dpd-uk", "no_credentials"),
        (None, "bad_utf8"), ("usps", "no_credentials"), ("dpd-uk", "bad_json"),
    ]  # fmt: skip
    letters = [
        letter(f"k{index}", slug=slug, reason=reason, at=START + hours(index))
        for index, (slug, reason) in enumerate(kinds)
    ]
    record(dead, letters)
    return dead


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), ["k5", "k4", "k3", "k2", "k1", "k0"]),
        (Filter(slug="usps"), ["k4", "k1", "k0"]),
        (Filter(reason="no_credentials"), ["k4", "k2", "k1"]),
        (Filter(slug="usps", reason="no_credentials"), ["k4", "k1"]),
        (Filter(ids=("k0", "k3", "k9")), ["k3", "k0"]),
        (Filter(slug='{"$ne": null}'), []),
        (Filter(slug=""), []),
    ],
)
def test_what_is_listed_is_what_is_meant_newest_first(
    six: Collection[Any], wanted: Filter, expected: list[str]
) -> None:
    assert names(find(six, wanted)) == expected


def test_a_list_can_be_limited(six: Collection[Any]) -> None:
    assert names(find(six, Filter(), limit=2)) == ["k5", "k4"]


def test_what_is_deleted_is_what_is_meant(six: Collection[Any]) -> None:
    assert delete(six, Filter(slug="usps", reason="no_credentials")) == 2
    assert names(find(six, Filter())) == ["k5", "k3", "k2", "k0"]


def test_reasons_are_counted_the_most_frequent_first(six: Collection[Any]) -> None:
    assert list(count_by_reason(six).items()) == [
        ("no_credentials", 3),
        ("bad_json", 2),
        ("bad_utf8", 1),
    ]


async def test_the_port_records_and_says_when_it_could_not(stack: Stack, hasty: Store) -> None:
    port = Dead(hasty)
    await port.record([letter("k1"), letter("k2")])
    await port.record([])

    stack.mongodb.kill()
    with pytest.raises(ResultsDown):
        await port.record([letter("k3")])
    stack.mongodb.start()

    assert sorted(names(find(hasty.dead, Filter()))) == ["k1", "k2"]


def test_those_that_are_meant_are_counted_up_to_a_bound(
    mongo_uri: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MongoClient[Any](mongo_uri, tz_aware=True) as client:
        dead = client[database]["dead"]
        record(dead, [letter(f"k{n}", slug="usps", number=f"{n}") for n in range(3)])

        assert count(dead, Filter(slug="usps"), 10) == 3
        assert count(dead, Filter(slug="usps"), 2) == 2
        assert count(dead, Filter(slug="ups"), 10) == 0
        monkeypatch.setattr(queries, "COUNT_SECONDS", 1e-6)
        assert count(dead, Filter(), 10) is None


def test_pages_and_counts_are_read_by_indexes(mongo_uri: str, database: str) -> None:
    with MongoClient[Any](mongo_uri, datetime_conversion="DATETIME_AUTO") as client:
        dead = client[database]["dead"]
        make_indexes(dead, indexes_for(Names(""))["dead"])
        for wanted in (
            Filter(slug="usps"),
            Filter(reason="bad_json"),
            Filter(account=Account("shop")),
            Filter(since=START),
            Filter(slug="usps", reason="bad_json", since=START, behind=(START, "k2")),
        ):
            listed = {"filter": wanted.query(), "sort": {"at": -1, "_id": -1}, "limit": 50}
            for asked in ({"find": "dead", **listed}, {"count": "dead", "query": wanted.query()}):
                explain = {"explain": asked, "verbosity": "queryPlanner"}
                told = dead.database.command(explain, codec_options=dead.codec_options)

                assert "COLLSCAN" not in str(told["queryPlanner"]["winningPlan"])


def test_dead_requests_end_after_the_days_that_are_set_also_when_those_change(
    mongo_uri: str, database: str
) -> None:
    with MongoClient[Any](mongo_uri) as client:
        dead = client[database]["dead"]
        for _ in range(2):
            make_indexes(dead, indexes_for(Names("", dead_keep_days=30))["dead"])
        first = dead.index_information()["at_1"]["expireAfterSeconds"]
        make_indexes(dead, indexes_for(Names("", dead_keep_days=7))["dead"])
        second = dead.index_information()["at_1"]["expireAfterSeconds"]

    assert (first, second) == (30 * 86_400, 7 * 86_400)
