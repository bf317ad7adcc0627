"""Several writers of one document at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymongo.collection import Collection
from store_parcels import (
    FIRST,
    NAME,
    START,
    answer,
    call,
    failure,
    hours,
    on_its_way,
    writer_on,
)

from service.results.connection import Store
from tracking.errors import CourierDown
from tracking.request import Origin


@dataclass
class ReadAndThen:
    """A collection for which something happens right after each read."""

    collection: Collection[dict[str, Any]]
    happens: Callable[[], object]

    def find(self, *query: Any) -> list[dict[str, Any]]:
        documents = list(self.collection.find(*query))
        self.happens()
        return documents

    def __getattr__(self, name: str) -> Any:
        return getattr(self.collection, name)


def found(store: Store) -> dict[str, Any]:
    document = store.tracking.find_one({"_id": NAME})
    assert document is not None
    return document


def test_writers_that_meet_lose_nothing_and_the_newest_wins(store: Store) -> None:
    """Eight threads write answers and failures about one number at the same time."""
    answers, writers = 5, 8
    errors: list[object] = []

    def write(lane: int) -> None:
        writer = writer_on(store)
        for turn in range(answers):
            of = call(hours(turn * writers + lane))
            errors.extend(writer.write([answer(of, on_its_way(FIRST))]))

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    document = found(store)
    assert errors == [None] * (answers * writers)
    assert document["last_checked_at"] == START + hours(answers * writers - 1)
    # Each write that changed the document counted itself, and only older ones changed nothing.
    assert document["revision"] == document["tracked_count"] - 1
    newest = document["attempts"][-1]["at"]
    assert newest > document["last_checked_at"]


def test_a_write_in_between_is_merged_and_not_overwritten(store: Store) -> None:
    other = writer_on(store)
    other.write([answer(call(hours(0)), on_its_way(FIRST))])
    between: Any = ReadAndThen(
        store.tracking, lambda: other.write([failure(call(hours(1)), CourierDown("?"))])
    )
    store.tracking = between

    told = writer_on(store).write(
        [answer(call(hours(2), origin=Origin.AUTOMATIC), on_its_way(FIRST))]
    )

    outcomes = [each["outcome"] for each in found(store)["attempts"]]
    assert told == [None]
    assert outcomes == ["answered", "courier_down", "answered"]


def test_failures_that_meet_are_all_noted(store: Store) -> None:
    error = CourierDown("?")

    def write(lane: int) -> None:
        of = call(hours(lane))
        writer = writer_on(store)
        writer.write([failure(of, error)])

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found(store)["attempts"]) == 8
