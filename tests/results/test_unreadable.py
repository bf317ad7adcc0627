"""Answers that could not be read: kept beside the parcel, newest first, and stored once read."""

from __future__ import annotations

from typing import Any

import pytest
from store_parcels import (
    FIRST,
    JOURNEY,
    NAME,
    NUMBER,
    answered,
    attempt,
    call,
    hours,
    on_its_way,
    scan,
    times,
    writer_on,
)

from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.results.trackings import Trackings
from service.worker.results.unreadable import answer_in, delete_read, kept_answers, unread_of
from tracking.call import Call
from tracking.errors import CourierDown, Unread, UnreadableAnswer
from tracking.request import Account

HEADERS = {"content-type": "application/json"}


def unreadable(body: bytes = b'{"new": 1}', number: str = NUMBER, **more: Any) -> UnreadableAnswer:
    error = UnreadableAnswer("a new form", http_status=200)
    error.unread = Unread(number, 200, HEADERS, body, **more)
    return error


async def fail(trackings: Trackings, of: Call, error: UnreadableAnswer | CourierDown) -> None:
    await trackings.fail(of, error, attempt(of, error.code), final=False)


def kept(store: Store) -> list[dict[str, Any]]:
    return list(kept_answers(store.unreadable))


async def test_an_answer_that_cannot_be_read_is_kept_beside_the_failure(
    trackings: Trackings, store: Store
) -> None:
    await fail(trackings, call(), unreadable())

    [document] = kept(store)
    assert (document["_id"], document["slug"], document["number"]) == (NAME, "usps", NUMBER)
    assert (document["body"], document["message"]) == ('{"new": 1}', "a new form")
    assert document["observed_us"] == call().granted_us
    assert unread_of(document) == unreadable().unread
    stored = store.tracking.find_one({"_id": NAME})
    assert stored is not None
    assert stored["attempts"][0]["at"] == document["attempted_at"]


@pytest.mark.parametrize(
    "body", [b"\xff\x00\xfe", "\ud800".encode("utf-8", "surrogatepass"), b"", b"x" * 65_536]
)
async def test_any_bytes_come_back_as_they_were(
    trackings: Trackings, store: Store, body: bytes
) -> None:
    await fail(trackings, call(), unreadable(body, cut=True))

    [document] = kept(store)
    assert unread_of(document).body == body
    assert unread_of(document).cut


async def test_what_bson_cannot_hold_in_a_header_is_replaced(
    trackings: Trackings, store: Store
) -> None:
    error = unreadable()
    error.unread = Unread(NUMBER, 200, {"content-type": "a\udcff"}, b"")
    await fail(trackings, call(), error)

    assert kept(store)[0]["headers"] == {"content-type": "a?"}


async def test_other_failures_keep_nothing(trackings: Trackings, store: Store) -> None:
    await fail(trackings, call(), CourierDown("502"))
    await fail(trackings, call(), UnreadableAnswer("too large to be read at all"))

    assert kept(store) == []


async def test_the_newest_is_kept_whatever_comes_last(trackings: Trackings, store: Store) -> None:
    await fail(trackings, call(hours(2)), unreadable(b"second"))
    await fail(trackings, call(hours(1)), unreadable(b"first"))
    await fail(trackings, call(hours(2)), unreadable(b"second"))
    await fail(trackings, call(hours(3)), unreadable(b"third"))

    assert [document["body"] for document in kept(store)] == ["third"]


async def test_what_was_read_after_a_fix_is_the_observation_it_was(
    trackings: Trackings, store: Store
) -> None:
    await answered(trackings, call(), JOURNEY)
    await fail(trackings, call(hours(5)), unreadable())
    [document] = kept(store)
    later = on_its_way(*JOURNEY.checkpoints, scan("2026-03-01T15:00:00", "Departed"))
    writer_on(store).write_one(answer_in(document, later))
    delete_read(store.unreadable, document)

    stored = store.tracking.find_one({"_id": NAME})
    assert stored is not None
    assert times(stored)[-1] == "2026-03-01T15:00:00"
    assert stored["observed_us"] == call(hours(5)).granted_us
    assert [one["outcome"] for one in stored["attempts"]] == ["answered", "unreadable_answer"]
    assert kept(store) == []


async def test_a_newer_answer_is_not_replaced_by_an_older_one_that_is_read_late(
    trackings: Trackings, store: Store
) -> None:
    await fail(trackings, call(), unreadable())
    await answered(trackings, call(hours(1)), JOURNEY)
    [document] = kept(store)
    older = on_its_way(scan("2026-02-01T08:00:00"))
    writer_on(store).write_one(answer_in(document, older))

    stored = store.tracking.find_one({"_id": NAME})
    assert stored is not None
    assert times(stored) == [point.checkpoint_time for point in JOURNEY.checkpoints]


async def test_an_answer_that_came_meanwhile_is_not_forgotten(
    trackings: Trackings, store: Store
) -> None:
    await fail(trackings, call(), unreadable(b"first"))
    [document] = kept(store)
    await fail(trackings, call(hours(1)), unreadable(b"second"))
    delete_read(store.unreadable, document)

    assert [one["body"] for one in kept(store)] == ["second"]


async def test_those_of_one_courier_are_found_alone(trackings: Trackings, store: Store) -> None:
    await fail(trackings, call(), unreadable())

    assert len(list(kept_answers(store.unreadable, "usps"))) == 1
    assert list(kept_answers(store.unreadable, "ups")) == []


async def test_they_are_deleted_when_dead_requests_are(mongo_uri: str, database: str) -> None:
    for days in (30, 7):
        store = Store(Names(mongo_uri, database, dead_keep_days=days))
        await store.prepare()
        assert store.unreadable.index_information()["at_1"]["expireAfterSeconds"] == days * 86_400
        await store.close()


async def test_whose_answer_it_was_is_known_when_it_is_read_at_last(
    trackings: Trackings, store: Store
) -> None:
    shop = call(tracking_key="k")._replace(account=Account("shop"))
    await fail(trackings, shop, unreadable())
    await fail(trackings, call(hours(1)), unreadable())
    mains, shops = sorted(kept(store), key=lambda each: each["_id"])

    store.tracking.delete_many({})
    writer_on(store).write_one(answer_in(shops, JOURNEY))

    assert mains.keys() & {"account", "fields"} == set()
    [stored] = store.tracking.find()
    assert (stored["_id"], stored["account"]) == (f"{NAME}@shop", "shop")
    assert (stored["fields"], times(stored)[0]) == ({"tracking_key": "k"}, FIRST.checkpoint_time)
