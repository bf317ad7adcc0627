"""No change is ever untold: its mark is written by the very write that changes the document."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pymongo
import pytest
from pymongo.errors import AutoReconnect
from store_parcels import (
    FIRST,
    NAME,
    NUMBER,
    SECOND,
    THIRD,
    answer,
    answered,
    call,
    days,
    delivered,
    failure,
    found,
    hours,
    on_its_way,
    recheck_of,
    scan,
    stored,
    writer_on,
)

from service.worker.results.change import (
    CHECKPOINTS_MOST,
    MARKS_MOST,
    EventName,
    Mark,
    marked,
    marks_in,
)
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.results.retention import kinds, purge_some
from service.worker.results.trackings import Trackings
from tracking.checkpoint import Tag, Tracking
from tracking.errors import CourierDown
from tracking.request import MAIN, Account

NOW = dt.datetime(2026, 11, 26, 12, 0, 0, 123_000, dt.UTC)
CHANGED, DELIVERED = EventName.PARCEL_CHANGED, EventName.PARCEL_DELIVERED


@dataclass
class Followers:
    """Hears of the changes of one account."""

    account: Account = MAIN
    noted: list[Mark] = field(default_factory=list)

    def hears(self, account: Account) -> bool:
        return account == self.account

    def note(self, marks: Sequence[Mark]) -> None:
        self.noted += marks


def everybody(_: Account) -> bool:
    return True


@pytest.fixture
def followers() -> Followers:
    return Followers()


@pytest.fixture
async def followed(store: Store, followers: Followers) -> Trackings:
    return Trackings(store, recheck_of, followers)


def untold(store: Store, name: str = NAME) -> list[dict[str, Any]]:
    left: list[dict[str, Any]] = found(store, name).get("untold") or []
    return left


async def test_the_write_that_changes_a_document_marks_it(
    store: Store, followed: Trackings, followers: Followers
) -> None:
    await answered(followed, call(), on_its_way(FIRST))
    await answered(followed, call(hours(1)), delivered(FIRST, SECOND))

    first, second = marks_in(found(store))
    assert followers.noted == [first, second]
    assert (first.events, first.before) == ((CHANGED,), None)
    assert (second.slug, second.number, second.account) == ("usps", NUMBER, MAIN)
    assert second.events == (CHANGED, DELIVERED)
    assert second.changed == ("tag", "subtag", "checkpoints")
    assert second.before == {
        "tag": "InTransit",
        "subtag": "InTransit_003",
        "expected_delivery": None,
        "checkpoints": 1,
    }
    assert (second.after["tag"], second.after["delivered"]) == ("Delivered", True)
    assert [each["message"] for each in second.after["checkpoints"]] == ["Accepted", "Departed"]
    assert first.id != second.id


async def test_what_changes_nothing_leaves_no_mark(
    store: Store, followed: Trackings, followers: Followers
) -> None:
    await answered(followed, call(), Tracking(Tag.PENDING, "Pending_001", ()))
    await followed.fail(call(hours(1)), CourierDown("502"), answer(call(), ON).attempt, final=True)
    await answered(followed, call(hours(2)), on_its_way(FIRST))
    before = untold(store)
    await answered(followed, call(hours(3)), on_its_way(FIRST))

    assert len(before) == 1
    assert untold(store) == before
    assert len(followers.noted) == 1


ON = on_its_way(FIRST)


async def test_where_nobody_follows_a_document_has_no_such_member(
    store: Store, trackings: Trackings
) -> None:
    followed = Trackings(store, recheck_of, Followers(Account("shop")))
    await answered(trackings, call(), on_its_way(FIRST))
    await answered(followed, call(hours(1)), delivered(FIRST, SECOND))

    assert "untold" not in found(store)


async def test_marks_stay_when_somebody_else_writes(
    store: Store, followed: Trackings, trackings: Trackings
) -> None:
    await answered(followed, call(), on_its_way(FIRST))
    before = untold(store)

    await answered(trackings, call(hours(1)), delivered(FIRST, SECOND))
    await trackings.fail(call(hours(2)), CourierDown("502"), answer(call(), ON).attempt, final=True)

    assert untold(store) == before


def test_a_parcel_that_expires_is_marked_by_an_answer_and_by_a_failure(store: Store) -> None:
    writer = writer_on(store, everybody)
    for number, last in (
        ("94000001", answer(call(days(60), "94000001"), on_its_way(FIRST, SECOND))),
        ("94000002", failure(call(days(60), "94000002"), final=True)),
    ):
        writer.write_one(answer(call(number=number), on_its_way(FIRST, SECOND)))
        assert writer.write([last]) == [None]

        _, expired = marks_in(found(store, f"usps:{number}"))
        assert expired.events == (CHANGED, EventName.PARCEL_EXPIRED)
        assert expired.after["tag"] == "Expired"


def test_a_number_that_is_used_again_is_another_parcel_and_no_mark_is_lost(store: Store) -> None:
    writer = writer_on(store, everybody)
    writer.write_one(answer(call(), delivered(FIRST, SECOND)))
    later = scan("2026-09-01T08:00:00", "Accepted")
    writer.write_one(answer(call(days(190)), on_its_way(later)))

    delivered_before, used_again = marks_in(found(store))
    assert delivered_before.after["tag"] == "Delivered"
    assert (used_again.before, used_again.events) == (None, (CHANGED,))
    past = store.past.find_one({})
    assert past is not None
    assert "untold" not in past


def test_answers_of_one_batch_are_one_change(store: Store) -> None:
    writer = writer_on(store, everybody)
    both = [answer(call(), on_its_way(FIRST)), answer(call(hours(1)), delivered(FIRST, SECOND))]

    assert writer.write(both) == [None, None]

    (mark,) = writer.noted
    assert (mark.before, mark.events) == (None, (CHANGED, DELIVERED))


def test_a_change_that_is_not_confirmed_is_marked_where_it_was_written_after_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_on(store, everybody)
    real = pymongo.collection.Collection.insert_many

    def lost(*args: Any, **more: Any) -> None:
        real(*args, **more)
        raise AutoReconnect("the reply was lost")

    monkeypatch.setattr(pymongo.collection.Collection, "insert_many", lost)
    assert writer.write([answer(call(), on_its_way(FIRST))]) != [None]
    monkeypatch.undo()
    assert writer.write([answer(call(), on_its_way(FIRST))], doubted=True) == [None]

    assert len(untold(store)) == 1


def document(**members: Any) -> Document:
    return stored(on_its_way(FIRST, SECOND)) | members


def test_of_many_marks_the_last_two_become_one_that_knows_what_was_before() -> None:
    before: Document = document()
    for count in range(MARKS_MOST):
        after = before | {"subtag": f"InTransit_{count:03}"}
        before, _ = marked(before, after, NOW)
    assert len(before["untold"]) == MARKS_MOST
    last = before["untold"][-1]
    gone = before | {"tag": "Delivered", "subtag": "Delivered_001", "delivered": True}

    full, mark = marked(before, gone, NOW)

    assert mark is not None
    assert len(full["untold"]) == MARKS_MOST
    assert full["untold"][:-1] == before["untold"][:-1]
    assert mark.id not in {each["id"] for each in before["untold"]}
    assert mark.before == last["before"]
    assert (mark.events, mark.changed) == ((CHANGED, DELIVERED), ("tag", "subtag"))
    assert mark.after["tag"] == "Delivered"


def test_a_mark_holds_the_newest_checkpoints() -> None:
    many = [scan(f"2026-03-01T{n // 60:02}:{n % 60:02}:00", f"Scan {n}") for n in range(90)]
    _, mark = marked(None, stored(on_its_way(*many)), NOW)

    assert mark is not None
    told = [each["message"] for each in mark.after["checkpoints"]]
    assert told == [f"Scan {n}" for n in range(90 - CHECKPOINTS_MOST, 90)]


async def test_what_ended_is_not_purged_before_its_changes_are_told(store: Store) -> None:
    old = stored(delivered(FIRST, SECOND, THIRD)) | {"updated_at": NOW - days(400)}
    store.tracking.insert_many(
        [
            old | {"_id": "usps:UNTOLD", "untold": [{"id": "1", "at": NOW}]},
            old | {"_id": "usps:OLD"},
        ]
    )

    for kind in kinds(store, Names("", results_keep_days=30), NOW):
        purge_some(kind)

    assert store.tracking.distinct("_id") == ["usps:UNTOLD"]
