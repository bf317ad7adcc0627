"""What ended is written to MongoDB once, whatever dies in between, and found there for months."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from mongo_questions import Asked
from pymongo import monitoring
from pymongo.errors import NotPrimaryError
from redis.asyncio import Redis

from limits.archive import BRIEF_MS, DAY_MS, ToArchive
from limits.keys import ARCHIVE_LOCKS, STATUS, TO_ARCHIVE
from limits.pipeline import unconfirmed
from service.observe.events import Event
from service.worker.results import database as database_module
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names
from service.worker.results.forgetting import Parcel, clear, mark
from service.worker.results.refused import try_again
from service.worker.upkeep import archiver
from service.worker.upkeep.archiver import TOGETHER_MOST, Archiver
from tracking.errors import LimitsDown, ResultsDown

ADMITTED_MS = 1_772_366_400_000
"""2026-03-01, noon."""

ENDED_MS = ADMITTED_MS + 2_500
PUT_MS = ADMITTED_MS - 90_000
NUMBER = "9405903699300184125060"

ODD: list[dict[str, Any]] = [{"at": 2**99}, {"output": {"count": 2**70}}]
Told = list[tuple[Event, dict[str, Any]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    events: Told = []
    for module in (database_module, archiver):
        monkeypatch.setattr(module, "emit", lambda event, **more: events.append((event, more)))
    return events


def new(redis: Redis, store: Store, who: str = "first") -> Archiver:
    return Archiver(ToArchive(unconfirmed(redis), who), store)


def status(**other: Any) -> dict[str, Any]:
    """As lua/lib/state.lua writes it."""
    return {
        "status": "SUCCESS",
        "tracking": f"usps:{NUMBER}",
        "at": ADMITTED_MS,
        "startedAt": "2026-03-01T12:00:00.000Z",
        "finishedAt": "2026-03-01T12:00:02.500Z",
        "output": {"tag": "Delivered", "checkpoints": 3},
        **other,
    }


async def end(redis: Redis, name: str = "order-1", at_ms: int = ENDED_MS, **other: Any) -> None:
    await redis.set(f"{STATUS}{name}", json.dumps(status(**other)))
    await redis.zadd(TO_ARCHIVE, {name: at_ms})


def stored(store: Store) -> list[Document]:
    return list(store.operations.find().sort("_id"))


def instant(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


async def test_an_operation_that_ended_is_stored_with_all_that_is_known_of_it(
    redis: Redis, store: Store
) -> None:
    attempts = [[ADMITTED_MS - 1, "courier_down", 503, 9], [ADMITTED_MS, "answered", 200, 212]]
    await end(
        redis, attempts=attempts, resend_of="order-0", webhook="shop", cancels=True, put=PUT_MS
    )

    await new(redis, store).step()

    assert stored(store) == [
        {
            "_id": f"order-1@{ADMITTED_MS}",
            "account": "main",
            "id": "order-1",
            "slug": "usps",
            "number": NUMBER,
            "origin": "MANUAL",
            "state": "SUCCESS",
            "output": {"tag": "Delivered", "checkpoints": 3},
            "resend_of": "order-0",
            "webhook": "shop",
            "cancels": True,
            "put_at": instant(PUT_MS),
            "admitted_at": instant(ADMITTED_MS),
            "started_at": instant(ADMITTED_MS),
            "finished_at": instant(ENDED_MS),
            "attempts": [
                {"at": instant(ADMITTED_MS), "outcome": "answered", "http_status": 200, "ms": 212}
            ],
        }
    ]


async def test_it_is_let_go_only_with_the_next_question(redis: Redis, store: Store) -> None:
    await end(redis)
    await end(redis, "auto", auto=True)
    await end(redis, "acme/none", anonymous=True)
    one = new(redis, store)

    await one.step()
    assert await redis.zcard(TO_ARCHIVE) == len(stored(store)) == 3
    await one.step()

    assert await redis.zcard(TO_ARCHIVE) == 0
    # All ended long ago, so that these are past and Redis has let go of them.
    assert await redis.keys(f"{STATUS}*") == []
    told = {each["id"]: f"{each['account']} {each['origin']}" for each in stored(store)}
    assert told == {"order-1": "main MANUAL", "auto": "main AUTOMATIC", "acme/none": "acme MANUAL"}


async def test_the_end_of_what_a_producer_named_is_known_for_a_day_that_of_others_for_minutes(
    redis: Redis, store: Store
) -> None:
    seconds, _ = await redis.time()
    now_ms = int(seconds) * 1000
    for name, other in (("named", {}), ("auto", {"auto": True}), ("none", {"anonymous": True})):
        await end(redis, name, now_ms, **other)
    one = new(redis, store)

    await one.step()
    await one.step()

    ends = [await redis.pexpiretime(f"{STATUS}{name}") for name in ("named", "auto", "none")]
    assert ends == [now_ms + DAY_MS, now_ms + BRIEF_MS, now_ms + BRIEF_MS]


async def test_who_vanishes_before_the_report_has_it_archived_twice_which_changes_nothing(
    redis: Redis, store: Store
) -> None:
    await end(redis)
    await new(redis, store, "vanishes").step()
    before = stored(store)
    await end(redis, "order-2", ENDED_MS + 1)
    await redis.delete(*ARCHIVE_LOCKS)  # their time is over

    one = new(redis, store, "the next")
    await one.step()
    await one.step()

    assert [each["id"] for each in stored(store)] == ["order-1", "order-2"]
    assert stored(store)[0] == before[0]
    assert await redis.zcard(TO_ARCHIVE) == 0


async def test_a_report_whose_reply_was_lost_is_given_again(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await end(redis)
    to_archive = ToArchive(unconfirmed(redis), "first")
    one = Archiver(to_archive, store)
    await one.step()
    ask = to_archive.ask

    async def lost(*args: Any) -> Any:
        await ask(*args)
        raise LimitsDown("the reply was lost")

    with monkeypatch.context() as patched:
        patched.setattr(to_archive, "ask", lost)
        with pytest.raises(LimitsDown):
            await one.step()
    await one.step()

    assert len(stored(store)) == 1
    assert await redis.zcard(TO_ARCHIVE) == 0


async def test_while_mongodb_is_away_all_stays_in_redis_and_is_archived_later(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await end(redis)
    one = new(redis, store)

    def away(*_: Any, **__: Any) -> Any:
        raise NotPrimaryError("not primary")

    with monkeypatch.context() as patched:
        patched.setattr(archiver, "archive_ended", away)
        with pytest.raises(ResultsDown):
            await one.step()
    assert await redis.ttl(f"{STATUS}order-1") == -1

    await store.available()
    await one.step()
    await one.step()
    assert [each["id"] for each in stored(store)] == ["order-1"]
    assert await redis.zcard(TO_ARCHIVE) == 0


async def test_a_whole_batch_is_followed_by_the_next_at_once(redis: Redis, store: Store) -> None:
    for n in range(TOGETHER_MOST + 1):
        await end(redis, f"order-{n:04}")
    one = new(redis, store)

    assert [await one.step() for _ in range(3)] == [-1.0, None, None]

    assert len(stored(store)) == TOGETHER_MOST + 1


async def test_the_others_wait_until_the_one_who_archives_must_have_vanished(
    redis: Redis, store: Store
) -> None:
    one, other = new(redis, store), new(redis, store, "second")
    await one.step()

    assert 25 < (await other.step() or 0) <= 31
    assert (one.works, other.works) == (True, False)


@pytest.mark.parametrize(
    "text", ["[]", '{"status":"SUCCESS"}', *(json.dumps(status(**each)) for each in ODD)]
)
async def test_a_status_that_others_wrote_holds_up_nobody_and_is_told(
    redis: Redis, store: Store, told: Told, text: str
) -> None:
    await end(redis, "order-0", ENDED_MS - 1)
    await redis.set(f"{STATUS}order-0", text)
    await end(redis)
    one = new(redis, store)

    await one.step()
    await one.step()

    assert [each["id"] for each in stored(store)] == ["order-1"]
    assert await redis.zcard(TO_ARCHIVE) == 0
    assert [fields["operation"] for _, fields in told] == ["order-0"]


async def test_what_mongodb_refuses_is_kept_aside_and_the_others_are_archived(
    redis: Redis, store: Store, told: Told
) -> None:
    database = store.operations.database
    database.command("collMod", "operations", validator={"number": {"$ne": "POISON01"}})
    await end(redis, "poison", ENDED_MS - 1, tracking="usps:POISON01")
    for n in range(TOGETHER_MOST + 1):
        await end(redis, f"order-{n:04}")
    one = new(redis, store)

    for _ in range(3):
        await one.step()

    assert await redis.zcard(TO_ARCHIVE) == 0
    assert len(stored(store)) == TOGETHER_MOST + 1
    ((event, fields),) = told
    assert (event, fields["document"]) == (Event.REFUSED_DOCUMENT, f"poison@{ADMITTED_MS}")
    aside = database["refused"].find_one({})
    assert aside is not None
    assert aside["document"]["number"] == "POISON01"
    database.command("collMod", "operations", validator={})
    assert try_again(store.operations, store.forgotten) == 1
    assert len(stored(store)) == TOGETHER_MOST + 2


async def test_a_forgotten_parcel_is_not_archived_and_what_is_archived_of_it_goes(
    redis: Redis, store: Store
) -> None:
    """`forget` may come at any moment: before, while a batch is in hand, and after."""
    parcel = Parcel("usps", NUMBER, (ADMITTED_MS + 1) * 1000)
    await end(redis)
    await end(redis, "later", at=ADMITTED_MS + 2)
    await end(redis, "emptied", tracking=None, output={"code": "forgotten"})
    mark(store.forgotten, [parcel], 3_600)
    one = new(redis, store)

    await one.step()
    await one.step()

    assert [each["id"] for each in stored(store)] == ["later"]
    assert await redis.zcard(TO_ARCHIVE) == 0
    store.operations.insert_one({**stored(store)[0], "_id": "x", "admitted_at": parcel.at})
    counted = clear(store, parcel)
    assert counted["operations"] == 1
    assert [each["id"] for each in stored(store)] == ["later"]


async def test_a_batch_is_one_write(redis: Redis, mongo_uri: str, database: str) -> None:
    for n in range(100):
        await end(redis, f"order-{n}")
    watched = Asked(database)
    monitoring.register(watched)
    opened = Store(Names(mongo_uri, database))
    try:
        await new(redis, opened).step()
    finally:
        await opened.close()

    assert watched.names == ["insert", "find"]  # and once a look for marks of forgotten parcels
