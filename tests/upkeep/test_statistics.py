"""Days go to MongoDB, where they are kept for ever and never become less."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.asyncio import Redis

from limits import keys
from limits.admin.statistics import DAY, Tallies
from service.worker.results.connection import Store
from service.worker.results.database import Names
from service.worker.results.statistics import read_days, save_days
from service.worker.upkeep import tallies as upkeep
from service.worker.upkeep.tallies import Tallying
from tracking.errors import LimitsDown, ResultsDown
from tracking.tally import Day, tally_of

FIELDS = {"SUCCESS 100 250": 3, "ERROR 500 -": 1, "lost - 60000": 2}


async def happened_today(redis: Redis) -> int:
    seconds, _ = await redis.time()
    await redis.sadd(keys.TALLIED_SLUGS, "usps")
    await redis.hset(keys.ten_minutes(seconds - seconds % 600, "usps"), mapping=FIELDS)
    return int(seconds - seconds % DAY)


async def test_a_day_is_kept_for_a_courier_and_for_all(redis: Redis, store: Store) -> None:
    today = await happened_today(redis)

    await Tallying(Tallies(redis), store).make_spans()

    for slug in ("", "usps"):
        assert read_days(store.statistics, slug, [today - DAY, today]) == {
            today: tally_of([FIELDS])
        }
    document = store.statistics.find_one({"slug": "usps"}, {"_id": 0})
    assert document is not None
    assert document.pop("day").timestamp() == today
    assert document == {
        "slug": "usps",
        "counts": {"SUCCESS": 3, "ERROR": 1, "lost": 2},
        "waited": {"100": 3, "500": 1},
        "took": {"250": 3, "60000": 2},
    }


def test_a_day_that_is_written_late_makes_it_no_less(store: Store) -> None:
    save_days(store.statistics, [Day(0, "usps", tally_of([{"SUCCESS 100 -": 5, "full": 1}]))])
    save_days(store.statistics, [Day(0, "usps", tally_of([{"SUCCESS 100 -": 4}]))])
    save_days(store.statistics, [Day(DAY, "usps", tally_of([]))])

    assert read_days(store.statistics, "usps", [0, DAY]) == {
        0: tally_of([{"SUCCESS 100 -": 5, "full": 1}])
    }


async def test_days_that_mongodb_does_not_have_are_made_again(
    redis: Redis, store: Store, mongo_uri: str, database: str
) -> None:
    today = await happened_today(redis)
    away = Store(Names(mongo_uri, database))
    await away.close()

    with pytest.raises(ResultsDown):
        await Tallying(Tallies(redis), away).make_spans()

    await Tallying(Tallies(redis), store).make_spans()
    assert list(read_days(store.statistics, "usps", [today])) == [today]


async def test_malformed_jobs_are_written_together_and_wait_while_redis_is_away(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tallies = Tallies(redis)
    tallying = Tallying(tallies, store)
    tallying.count()
    tallying.count()
    real = tallies.count_malformed

    async def away(_: int) -> None:
        raise LimitsDown("Redis is away")

    monkeypatch.setattr(tallies, "count_malformed", away)
    await tallying.write()
    monkeypatch.setattr(tallies, "count_malformed", real)
    await tallying.write()
    await tallying.write()

    (name,) = await redis.keys("tracking:stats2:*")
    assert await redis.hgetall(name) == {"malformed": "2"}


async def test_it_goes_on_by_itself(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "PERIOD_SECONDS", 0.001)
    today = await happened_today(redis)
    tallying = Tallying(Tallies(redis), store)
    tallying.count()

    running = asyncio.create_task(tallying.run())
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline and not read_days(  # noqa: ASYNC110 - it tells nobody
        store.statistics, "", [today]
    ):
        await asyncio.sleep(0.01)
    running.cancel()

    assert read_days(store.statistics, "", [today])[today].counts["SUCCESS"] == 3
