"""Status codes without a meaning are counted over all workers, and forgotten after a while."""

from __future__ import annotations

import datetime as dt

import pytest

from service.worker.results.connection import Store
from service.worker.results.database import CODE_KEEP_DAYS
from service.worker.results.statistics import MAX_CODE_BYTES, CodeCounts, add_codes, listed_codes
from tracking.errors import ResultsDown

BEFORE = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
AFTER = BEFORE + dt.timedelta(hours=3)


async def test_every_answer_counts_and_one_write_is_enough(store: Store) -> None:
    workers = [CodeCounts(store), CodeCounts(store)]
    for worker in workers:
        for _ in range(3):
            worker.count("ups", "ZZ")
        worker.count("gls", "INBOUN.NORMAL")
    assert listed_codes(store.unknown_codes) == []
    for worker in workers:
        await worker.write()
        await worker.write()

    found = [
        (each["slug"], each["code"], each["count"]) for each in listed_codes(store.unknown_codes)
    ]
    assert found == [("ups", "ZZ", 6), ("gls", "INBOUN.NORMAL", 2)]
    assert {each["_id"] for each in store.unknown_codes.find()} == {"ups:ZZ", "gls:INBOUN.NORMAL"}


async def test_it_is_known_since_when_and_until_when(store: Store) -> None:
    for now in (AFTER, BEFORE):  # the clocks of two machines
        add_codes(store.unknown_codes, {("ups", "ZZ"): 1}, now)

    [found] = listed_codes(store.unknown_codes)
    assert (found["first_seen"], found["last_seen"]) == (BEFORE, AFTER)


async def test_a_code_of_any_form_and_length_can_be_counted(store: Store) -> None:
    counts = CodeCounts(store)
    for code in ("$where", "a.b", "\ud800", "x" * 5_000, "\0"):
        counts.count("ups", code)
    await counts.write()

    found = {each["code"] for each in listed_codes(store.unknown_codes)}
    assert found == {"$where", "a.b", "?", "x" * MAX_CODE_BYTES, "\0"}


async def test_codes_that_no_courier_gives_any_more_are_forgotten(store: Store) -> None:
    await store.prepare()
    await store.prepare()

    index = store.unknown_codes.index_information()["last_seen_1"]
    assert index["expireAfterSeconds"] == CODE_KEEP_DAYS * 86_400


async def test_while_mongodb_is_away_counts_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silence(*_: object) -> None:
        raise ResultsDown("MongoDB is away")

    counts = CodeCounts(store)
    counts.count("ups", "ZZ")
    with monkeypatch.context() as away:
        away.setattr(store, "on_writer", silence)
        await counts.write()
    counts.count("ups", "ZZ")
    await counts.write()

    assert [each["count"] for each in listed_codes(store.unknown_codes)] == [2]
