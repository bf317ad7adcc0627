"""A forgotten parcel: all that is stored of it goes, and no earlier call stores it again."""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any

import pytest
from store_parcels import (
    JOURNEY,
    NAME,
    NUMBER,
    START,
    answered,
    attempt,
    call,
    hours,
    stored,
    writer_on,
)

from service.worker.flow.tracking_work import letter_of
from service.worker.results.connection import Marks, Store
from service.worker.results.dead import Dead, Filter, find
from service.worker.results.forgetting import Parcel, clear, mark
from service.worker.results.trackings import Trackings
from service.worker.results.unreadable import answer_in, kept_answers
from tracking.errors import CourierDown, Unread, UnreadableAnswer
from tracking.request import Origin

HOUR_SECONDS = 3_600
FORGOTTEN_AT = hours(5)
EARLIER, LATER = hours(4), hours(6)
OTHER = "9405903699300184125061"


def parcel(after: dt.timedelta = FORGOTTEN_AT) -> Parcel:
    """The parcel, forgotten so long after START."""
    return Parcel("usps", NUMBER, call(after).granted_us)


def marked(store: Store, after: dt.timedelta = FORGOTTEN_AT) -> None:
    mark(store.forgotten, [parcel(after)], HOUR_SECONDS)


def cleared(store: Store) -> dict[str, int]:
    return clear(store, parcel())


def unreadable() -> UnreadableAnswer:
    error = UnreadableAnswer("a new form", http_status=200)
    error.unread = Unread(NUMBER, 200, {}, b"signed by J. Doe")
    return error


async def test_all_that_is_stored_of_it_goes_and_nothing_else(
    trackings: Trackings, store: Store
) -> None:
    for of in (call(), call(number=OTHER)):
        await answered(trackings, of)
        await trackings.fail(of, unreadable(), attempt(of), final=False)
        for first_event in ("2025-01-01", "2025-06-01"):
            name = f"usps:{of.request.number}"
            past = stored() | {"_id": f"{name}:{first_event}", "tracking_number": name[5:]}
            store.past.insert_one(past)

    gone = {each: count for each, count in cleared(store).items() if count}
    assert gone == {"tracking": 1, "tracking_past": 2, "unreadable": 1}

    for collection in (store.tracking, store.past, store.unreadable):
        left = [document["_id"] for document in collection.find({})]
        assert left
        assert all(name.startswith(f"usps:{OTHER}") for name in left)
    assert not any(cleared(store).values())


def test_a_document_that_somebody_else_made_of_it_goes_too(store: Store) -> None:
    store.tracking.insert_one({"_id": NAME, "signed_by": "J. Doe"})

    assert cleared(store)["tracking"] == 1


@pytest.mark.parametrize("origin", list(Origin))
async def test_what_was_asked_before_is_not_stored(
    trackings: Trackings, store: Store, origin: Origin
) -> None:
    marked(store)

    for of in (call(EARLIER, origin=origin), call(FORGOTTEN_AT)):
        await answered(trackings, of)
        await trackings.fail(of, unreadable(), attempt(of), final=True)
        await trackings.fail(of, CourierDown("502 at J. Doe's"), attempt(of), final=True)

    assert store.tracking.count_documents({}) == 0
    assert list(kept_answers(store.unreadable)) == []


async def test_what_was_asked_later_is_stored_also_beside_what_was_not(
    trackings: Trackings, store: Store
) -> None:
    marked(store)

    await answered(trackings, call(LATER))
    await answered(trackings, call(EARLIER, OTHER))
    await trackings.fail(call(EARLIER), CourierDown("?"), attempt(call(EARLIER)), final=True)

    document = store.tracking.find_one({"_id": NAME})
    assert document is not None
    assert document["created_at"] == START + LATER
    assert [one["outcome"] for one in document["attempts"]] == ["answered"]
    assert cleared(store)["tracking"] == 0
    assert store.tracking.count_documents({}) == 2


async def test_the_newest_mark_stands_and_mongodb_ends_it(store: Store) -> None:
    marked(store)
    marked(store, EARLIER)

    found = store.forgotten.find_one({})
    assert found == {
        "_id": NAME,
        "at_us": call(FORGOTTEN_AT).granted_us,
        "until": START + FORGOTTEN_AT + dt.timedelta(seconds=HOUR_SECONDS),
    }
    assert store.forgotten.index_information()["until_1"]["expireAfterSeconds"] == 0


async def test_an_answer_that_was_read_before_and_is_stored_after_is_dropped(
    trackings: Trackings, store: Store
) -> None:
    """`reparse` has the kept answer in hand while the parcel is forgotten."""
    of = call(EARLIER)
    await trackings.fail(of, unreadable(), attempt(of), final=False)
    (kept,) = kept_answers(store.unreadable)
    marked(store)
    cleared(store)

    writer_on(store).write_one(answer_in(kept, JOURNEY))

    assert store.tracking.count_documents({}) == 0


async def test_what_a_writer_stores_that_has_not_seen_the_mark_is_cleared_by_the_next_look(
    trackings: Trackings, store: Store
) -> None:
    """A writer looks once a second while there are no marks."""
    await answered(trackings, call(number=OTHER))
    marked(store)
    cleared(store)
    await answered(trackings, call(EARLIER))

    assert cleared(store)["tracking"] == 1


async def test_a_writer_looks_seldom_while_nothing_is_forgotten_and_always_while_something_is(
    store: Store,
) -> None:
    finds: list[str] = []
    watched: Any = Watched(store.forgotten, finds)
    marks = Marks(watched)

    for _ in range(3):
        assert marks.of([NAME]) == {}
    assert finds == ["find_one"]

    marked(store)
    fresh = Marks(watched)
    for _ in range(3):
        assert fresh.of([NAME, "usps:OTHER1"]) == {NAME: call(FORGOTTEN_AT).granted_us}
    assert finds == ["find_one", "find_one", "find", "find", "find"]


class Watched:
    """A collection that notes how it is asked."""

    def __init__(self, collection: Any, asked: list[str]) -> None:
        self._collection = collection
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        self._asked.append(name)
        return getattr(self._collection, name)


async def test_a_dead_request_of_before_leaves_no_record_and_a_later_one_does(store: Store) -> None:
    dead = Dead(store)
    body = b'{"tracking_postal_code":"8000"}'
    letter = functools.partial(letter_of, reason="courier_down", detail="?", body=body)
    await dead.record([letter(call(number=OTHER))])  # so that a writer has just looked
    marked(store)

    await dead.record([letter(call(EARLIER)), letter(call(EARLIER, OTHER))])
    assert {one["number"] for one in find(store.dead, Filter())} == {OTHER}

    await dead.record([letter(call(LATER))])
    assert len(find(store.dead, Filter(slug="usps", number=NUMBER))) == 1
