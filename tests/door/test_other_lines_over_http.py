"""A line that is no courier's is told over HTTP like others; couriers' routes leave it alone."""

from __future__ import annotations

from door_ground import Client, refused
from redis.asyncio import Redis


async def test_a_line_of_another_kind_is_told_with_all_lines_and_by_its_name(
    api: Client, redis: Redis
) -> None:
    await redis.sadd("wait_slugs", "~shop")
    await redis.rpush("wait_list:~shop", "N001")

    every = await (await api.get("/v1/lines")).json()
    one = await (await api.get("/v1/lines/~shop")).json()

    (line,) = every["lines"]
    assert line | {"oldest_age_seconds": 0} == one | {"oldest_age_seconds": 0}
    assert (one["slug"], one["waiting_manual"], one["bound_by"]) == ("~shop", 1, "not_configured")
    assert "once a worker knows it" in every["worries"][0]


async def test_acts_on_couriers_refuse_a_line_of_another_kind(api: Client, redis: Redis) -> None:
    await redis.sadd("wait_slugs", "~shop")
    await redis.rpush("wait_list:~shop", "N001")

    await refused(await api.post("/v1/lines/~shop/pause", json={}), 404)
    await refused(await api.get("/v1/lines/~shop/limits"), 404)

    assert sorted(await redis.keys("*~shop*")) == ["wait_list:~shop"]
