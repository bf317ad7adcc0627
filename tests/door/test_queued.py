"""QUEUED: a request that `api` took is found before a worker takes it from its tube."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import pymongo
import pytest
from aftership_ground import create
from door_ground import USPS, Client, payloads, post, refused
from limits_bench import Worker
from operations_ground import in_state
from redis.asyncio import Redis

from devstack.servers import Server
from limits.jobs import PENDING_MOST, QUEUED_KEPT_MS, Queued
from tracking.operation import State

SOON = 5.0


async def test_what_was_taken_is_queued_until_a_worker_has_it(
    whole: Client, worker: Worker, redis: Redis
) -> None:
    assert (await post(whole, [USPS | {"id": "a"}, USPS | {"id": "b"}])).status == 202
    await in_state(redis, "b", State.QUEUED)

    queued = await (await whole.get("/v1/operations/a")).json()
    await worker.granted(USPS["number"], id="a")
    running = await (await whole.get("/v1/operations/a")).json()

    assert queued == {
        "id": "a",
        **USPS,
        "status": "QUEUED",
        "startedAt": None,
        "finishedAt": None,
        "output": None,
        "place": None,
    }
    assert running["status"] == "RUNNING"


async def by_a_link(api: Client) -> None:
    link = await (await api.post("/v1/links", json=USPS)).json()
    assert (await api.post("/start/" + link["url"].rpartition("/")[2])).status == 201


async def by_aftership(api: Client) -> None:
    await create(api, tracking_number=USPS["number"], slug="usps")


async def by_max_age(api: Client) -> None:
    path = "/v1/parcels/{slug}/{number}".format(**USPS)
    assert (await api.get(f"{path}?max_age=0")).status == 202


@pytest.mark.parametrize("put", [by_a_link, by_aftership, by_max_age])
async def test_so_it_is_by_whichever_route_it_was_put(
    whole: Client, beanstalkd: Server, redis: Redis, put: Callable[[Client], Awaitable[None]]
) -> None:
    await put(whole)

    [payload] = payloads(beanstalkd)
    queued = await in_state(redis, payload["id"], State.QUEUED)
    assert queued["tracking"] == ":".join(USPS.values())


async def test_what_a_worker_has_already_stays_as_it_is(
    whole: Client, worker: Worker, redis: Redis
) -> None:
    await worker.granted(USPS["number"], id="a")

    await post(whole, [USPS | {"id": "a"}, USPS | {"id": "b"}])
    await in_state(redis, "b", State.QUEUED)

    assert (await in_state(redis, "a", State.RUNNING))["startedAt"]


async def test_what_is_queued_cannot_be_cancelled_yet_and_says_so(
    whole: Client, redis: Redis
) -> None:
    await post(whole, USPS | {"id": "a"})
    await in_state(redis, "a", State.QUEUED)

    problem = await refused(await whole.post("/v1/operations/a/cancel"), 409)

    assert (problem["reason"], "tube" in problem["detail"]) == ("queued", True)


async def test_what_no_worker_ever_takes_is_forgotten_after_a_day(redis: Redis) -> None:
    queued = Queued(redis)
    queued.note([("a", "usps:N001")])

    await in_state(redis, "a", State.QUEUED)

    assert 0 < await redis.pttl("tracking:status:a") <= QUEUED_KEPT_MS


async def test_while_redis_is_away_the_newest_are_kept_and_no_more(redis: Redis) -> None:
    queued = Queued(redis)
    queued.note((f"op-{number}", "usps:N001") for number in range(PENDING_MOST + 1))

    await in_state(redis, f"op-{PENDING_MOST}", State.QUEUED)

    assert await redis.dbsize() == PENDING_MOST
    assert not await redis.exists("tracking:status:op-0")


async def test_what_was_not_taken_is_404_with_the_reason(
    whole: Client, mongo_uri: str, database: str
) -> None:
    refusal = {"reason": "too_late", "detail": "no call in time", "at": dt.datetime.now(dt.UTC)}
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[database]["dead"].insert_one({"operations": ["late"], **refusal})

    for path in ("late", "late?wait=0.05"):
        problem = await refused(await whole.get(f"/v1/operations/{path}"), 404)
        assert (problem["reason"], problem["detail"]) == ("too_late", "it is dead: no call in time")
