"""The two scripts that belong to no slug: which slugs have work, and whether Redis forgot."""

from __future__ import annotations

from limits_bench import KEYS, USPS, Worker
from redis.asyncio import Redis


async def test_survey_names_each_slug_with_work_once(worker: Worker, redis: Redis) -> None:
    await worker.granted()
    await redis.rpush(KEYS.wait_list, "N002")
    await redis.rpush("wait_list_automatic:dpd-uk", "N003")

    found = await worker.pipeline.run("survey", [KEYS.lines], [f"{USPS} dpd-uk gls"])

    assert sorted(found) == ["dpd-uk", USPS]


async def test_epoch_answers_the_name_to_work_with_and_the_end_of_the_quiet(
    worker: Worker,
) -> None:
    args = [KEYS.epoch], ["lost", "new", 5_000_000]

    now, name, quiet = await worker.pipeline.run("epoch", *args)

    assert name == worker.epoch.name
    assert int(quiet) == now + 5_000_000


async def test_a_worker_that_knows_no_epoch_learns_the_one_there_is(worker: Worker) -> None:
    _, name, quiet = await worker.pipeline.run("epoch", [KEYS.epoch], ["", "new", 5_000_000])

    assert (name, quiet) == (worker.epoch.name, "0")


async def test_where_there_is_no_epoch_and_none_was_known_one_begins_without_quiet(
    worker: Worker, redis: Redis
) -> None:
    await redis.delete(KEYS.epoch)

    _, name, quiet = await worker.pipeline.run("epoch", [KEYS.epoch], ["", "new", 5_000_000])

    assert (name, quiet) == ("new", "0")
    assert await redis.get(KEYS.epoch) == "new 0"
    assert await redis.ttl(KEYS.epoch) == -1
