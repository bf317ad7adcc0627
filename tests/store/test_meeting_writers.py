"""Several writers of one document at the same time."""

from __future__ import annotations

import threading
from typing import Any

from store_parcels import FIRST, NAME, START, answer, call, failure, hours, on_its_way

from service.store.bulk import BulkWriter
from service.store.connection import Store
from tracking.errors import CourierDown


def found(store: Store) -> dict[str, Any]:
    document = store.tracking.find_one({"_id": NAME})
    assert document is not None
    return document


def test_writers_that_meet_lose_nothing_and_the_newest_wins(store: Store) -> None:
    """Eight threads write answers and failures about one number at the same time."""
    answers, writers = 5, 8
    errors: list[object] = []

    def write(lane: int) -> None:
        writer = BulkWriter(store.tracking, store.past)
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


def test_failures_that_meet_are_all_noted(store: Store) -> None:
    error = CourierDown("?")

    def write(lane: int) -> None:
        of = call(hours(lane))
        writer = BulkWriter(store.tracking, store.past)
        writer.write([failure(of, error)])

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found(store)["attempts"]) == 8
