"""When a checkpoint was first told here, which AfterShip calls its `created_at`."""

from __future__ import annotations

from store_parcels import (
    FIRST,
    JOURNEY,
    SECOND,
    START,
    answer,
    call,
    hours,
    on_its_way,
    stored,
)

from service.worker.results.merge import merge


def test_a_checkpoint_keeps_the_time_at_which_it_was_first_told() -> None:
    old = merge(None, answer(call(), on_its_way(FIRST))).document

    new = merge(old, answer(call(hours(2)), on_its_way(FIRST, SECOND))).document

    assert [each["recorded_at"] for each in new["checkpoints"]] == [START, START + hours(2)]


def test_a_checkpoint_of_before_stays_as_it_is_and_is_no_news() -> None:
    old = stored()
    for each in old["checkpoints"]:
        del each["recorded_at"]

    again = merge(old, answer(call(hours(2)), JOURNEY))

    assert again.document["checkpoints"] == old["checkpoints"]
    assert again.document["updated_at"] == old["updated_at"]
