"""Several writers of one document, and a primary that finds no majority to confirm its writes."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pymongo import WriteConcern
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern
from store_parcels import (
    FIRST,
    START,
    answer,
    answered,
    call,
    delivered,
    failure,
    found,
    hours,
    on_its_way,
    recheck_of,
    writer_on,
)

from devstack.kinds import MONGODB
from devstack.members import Members
from devstack.servers import running
from service.worker.flow.tasks import keep_trying
from service.worker.results.connection import LOOK_SECONDS, Store
from service.worker.results.database import Names
from service.worker.results.dead import Dead
from service.worker.results.refused import insert_each
from service.worker.results.trackings import Trackings
from tracking.call import DeadLetter
from tracking.errors import CourierDown, ResultsDown
from tracking.request import Origin

SOON = 20.0
LAG_SECONDS = 2
"""Longer than one operation of these tests may take."""


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


def confirmed(store: Store) -> list[dict[str, Any]]:
    """What a majority has."""
    return list(store.tracking.with_options(read_concern=ReadConcern("majority")).find())


async def test_it_is_away_until_a_majority_confirms_though_it_answers(
    members: Members, on_members: Store, notices: list[Exception | None]
) -> None:
    trackings, of = Trackings(on_members, recheck_of), call()
    members.secondary.pause()
    with pytest.raises(ResultsDown, match="MongoDB"):
        await answered(trackings, of, on_its_way(FIRST))

    on_members.client.admin.command("ping")
    waiting = asyncio.ensure_future(trackings.available())
    await asyncio.sleep(3 * LOOK_SECONDS)
    assert not waiting.done()
    assert not trackings.is_available
    members.secondary.resume()
    await asyncio.wait_for(waiting, SOON)
    await answered(trackings, of, on_its_way(FIRST))

    assert [each["tag"] for each in confirmed(on_members)] == ["InTransit"]
    assert [each is None for each in notices] == [False, True]


@pytest.mark.parametrize(
    "origin", [Origin.AUTOMATIC, pytest.param(Origin.MANUAL, marks=pytest.mark.prove)]
)
async def test_a_try_that_finds_its_own_unconfirmed_write_has_not_stored_it(
    members: Members, on_members: Store, origin: Origin
) -> None:
    trackings, first = Trackings(on_members, recheck_of), call()
    await answered(trackings, first, on_its_way(FIRST))
    members.secondary.pause()
    later = answer(call(hours(1), origin=origin), delivered(FIRST))

    told = [
        await asyncio.to_thread(writer_on(on_members).write, [later], doubted=doubted)
        for doubted in (False, False, True)
    ]

    assert [type(each) for (each,) in told] == [ResultsDown] * 3
    assert [each["tag"] for each in on_members.tracking.find()] == ["Delivered"], "it is written"
    assert [each["tag"] for each in confirmed(on_members)] == ["InTransit"]
    members.secondary.resume()
    await keep_trying_to_write(on_members, later)
    assert [each["tag"] for each in confirmed(on_members)] == ["Delivered"]


async def keep_trying_to_write(store: Store, later: Any) -> None:
    async def write() -> None:
        for error in await asyncio.to_thread(writer_on(store).write, [later], doubted=True):
            if error is not None:
                raise error

    await keep_trying(write, until=time.monotonic() + SOON)


@pytest.mark.prove
async def test_a_majority_that_lags_behind_more_than_an_operation_may_take_confirms_all_the_same(
    members: Members, on_members: Store
) -> None:
    members.lag(LAG_SECONDS)
    trackings, dead = Trackings(on_members, recheck_of), Dead(on_members)
    stop = asyncio.Event()

    async def others() -> None:
        """There is always something newer than what is waited for."""
        while not stop.is_set():
            await asyncio.to_thread(on_members.client["others"]["others"].insert_one, {})
            await asyncio.sleep(0.05)

    async def store(number: str) -> None:
        of = call(number=number)
        until = time.monotonic() + SOON
        await keep_trying(lambda: answered(trackings, of, on_its_way(FIRST)), until)

    async def record(name: str) -> None:
        letter = DeadLetter(name, "courier_down", "502", b"{}")
        await keep_trying(lambda: dead.record([letter]), until=time.monotonic() + SOON)

    writing = asyncio.create_task(others())
    try:
        await asyncio.gather(*(store(f"NUMBER{n}") for n in range(30)), record("k1"))
    finally:
        stop.set()
        await writing

    assert len(confirmed(on_members)) == 30


async def test_what_a_majority_has_is_not_written_again_by_a_try_after_one_that_was_not_confirmed(
    members: Members, on_members: Store
) -> None:
    insert_each(on_members.operations, [{"_id": "there"}])
    members.secondary.pause()

    assert insert_each(on_members.operations, [{"_id": "there"}], doubted=True) == []


def retry_letter(store: Store) -> bool:
    unjournaled(store, "dead").dead.insert_one({"_id": "k1"})
    return insert_each(store.dead, [{"_id": "k1"}], doubted=True) == []


def retry_answer(store: Store) -> bool:
    first = answer(call(), on_its_way(FIRST))
    writer_on(unjournaled(store, "tracking")).write_one(first)
    return writer_on(store).write([first], doubted=True) == [None]


def unjournaled(store: Store, name: str) -> Store:
    """The same store, which does not wait for the journal of one collection."""
    hasty = copy.copy(store)
    setattr(hasty, name, getattr(store, name).with_options(write_concern=WriteConcern(w=1)))
    return hasty


@pytest.mark.parametrize(("retry", "name"), [(retry_letter, "dead"), (retry_answer, "tracking")])
async def test_what_is_in_the_memory_of_a_mongod_that_stands_alone_is_not_taken_for_stored(
    retry: Callable[[Store], bool], name: str
) -> None:
    """To a majority read, too, it shows what its journal has a tenth of a second later."""
    with running(MONGODB) as server:
        store = Store(Names(server.url, "alone"))
        store.client.admin.command("setParameter", 1, journalCommitInterval=500)
        store.client["alone"].create_collection(name)  # which is written to the disk at once
        assert await asyncio.to_thread(retry, store)
        server.kill()
        server.start()

        assert store.named(name).count_documents({}) == 1
        await store.close()
