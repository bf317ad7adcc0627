"""Redis under Sentinels: who is asked, and how soon after a promotion."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from limits_bench import Hire
from redis.asyncio.sentinel import Sentinel

from devstack.sentinels import PASSWORD, SERVICE, Watched
from limits import connect
from limits.connect import RedisAddress, open_redis, shared_secret
from service.config.address import host_and_port
from tracking.errors import LimitsDown

BACK_SECONDS, PATIENCE = 5.0, 20.0


def address_of(watched: Watched, password: str = PASSWORD) -> RedisAddress:
    sentinels = [host_and_port(each) for each in watched.addresses]
    return RedisAddress("redis://unused:1/0", sentinels, SERVICE, ("", password))


async def test_sentinels_are_asked_with_a_login_of_their_own(watched: Watched) -> None:
    right, none = open_redis(address_of(watched)), open_redis(address_of(watched, ""))
    try:
        assert await shared_secret(right, "secret", "x") == "x"
        with pytest.raises(LimitsDown, match="Sentinels refuse user name or password"):
            await shared_secret(none, "secret", "x")
    finally:
        await right.aclose()
        await none.aclose()


async def test_tls_and_its_options_are_for_redis_and_the_sentinels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}

    class Listening(Sentinel):
        def __init__(self, sentinels: Any, sentinel_kwargs: Any) -> None:
            asked.update(sentinel_kwargs)
            super().__init__(sentinels, sentinel_kwargs=sentinel_kwargs)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(connect, "Sentinel", Listening)
    url = "rediss://user:pw@unused/3?ssl_ca_certs=/ca.pem&ssl_check_hostname=false"
    client = open_redis(RedisAddress(url, [("127.0.0.1", 1)], SERVICE, ("sentinel", "secret")))

    with pytest.raises(LimitsDown, match="no primary that a Sentinel knows"):
        await shared_secret(client, "secret", "x")
    connection = client.connection_pool.make_connection()

    assert (connection.ca_certs, connection.check_hostname) == ("/ca.pem", False)
    assert (connection.username, connection.password, connection.db) == ("user", "pw", 3)
    wanted = {"ssl": True, "ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}
    assert wanted.items() <= asked.items()
    assert (asked["username"], asked["password"]) == ("sentinel", "secret")
    await client.aclose()


async def test_a_frozen_primary_is_left_within_seconds_of_a_promotion(
    watched: Watched, hire: Hire
) -> None:
    watched.ask_for_replicas(0)
    worker = await hire(address=address_of(watched))
    await worker.granted("N001")
    old = watched.primary()

    async def served() -> float:
        while True:
            with suppress(LimitsDown):
                await worker.admit("N002")
                return time.monotonic()

    old.pause()
    serving = asyncio.create_task(served())
    await asyncio.to_thread(watched.await_promotion, watched.other(old))
    promoted = time.monotonic()

    async with asyncio.timeout(PATIENCE):
        assert await serving - promoted < BACK_SECONDS
