"""Redis under Sentinels: who is asked, and how soon after a promotion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from limits_bench import FAST, KEYS, USPS, Hire, until
from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel

from devstack.sentinels import PASSWORD, SERVICE, Watched
from devstack.servers import Server
from limits import connect, replicas
from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from limits.admin.pause import Pauses
from limits.connect import open_redis, shared_secret
from limits.epoch import Loss
from limits.server import RedisAddress
from service.config.address import host_and_port
from service.flow.keep_trying import keep_trying
from tracking.call import Call, Parked
from tracking.errors import LimitsDown
from tracking.line import courier_line
from tracking.request import Number

BACK_SECONDS, PATIENCE = 5.0, 20.0


def address_of(watched: Watched, password: str = PASSWORD) -> RedisAddress:
    sentinels = [host_and_port(each) for each in watched.addresses]
    return RedisAddress("redis://unused:1/0", sentinels, SERVICE, ("", password))


async def has_leases(server: Server, calls: Sequence[Call]) -> bool:
    """Whether a server knows of these calls and no others."""
    async with Redis.from_url(server.url, decode_responses=True) as client:
        return set(await client.zrange(KEYS.calls_leases, 0, -1)) == {call.id for call in calls}


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


async def test_a_request_is_parked_when_a_replica_has_it(
    watched: Watched, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await hire(replace(FAST, concurrent=1), address=address_of(watched), watched=True)
    await worker.granted("BUSY")
    replica = watched.other(watched.primary())
    replica.pause()
    # A frozen replica does not confirm later either; one that follows may take longer.
    monkeypatch.setattr(replicas, "CONFIRM_MS", 50)

    with pytest.raises(LimitsDown, match="too few replicas that confirm"):
        await worker.admit("N001", "job-1")
    replica.resume()
    admitted = await keep_trying(lambda: worker.admit("N001", "job-1"))

    assert isinstance(admitted, Parked)
    async with Redis.from_url(replica.url, decode_responses=True) as client:
        assert await client.lrange(KEYS.wait_list, 0, -1) == ["N001"]


async def test_a_promotion_that_lost_calls_lets_nobody_start_for_the_quiet_time(
    watched: Watched, hire: Hire
) -> None:
    watched.ask_for_replicas(0)  # else nothing counts that the replica lacks
    heard: list[Loss] = []
    worker = await hire(address=address_of(watched), lost=heard.append, watched=True)
    old = watched.primary()
    kept = [await worker.granted(f"KEPT{number}") for number in range(10)]
    await until(lambda: has_leases(watched.other(old), kept))
    replica = watched.cut_replication()
    for number in range(10):
        await worker.granted(f"LOST{number}")

    old.kill()
    replica.resume()
    await asyncio.to_thread(watched.await_promotion, replica)
    admitted = [await keep_trying(lambda: worker.admit("MORE1")), await worker.admit("MORE2")]

    assert [type(each) for each in admitted] == [Parked, Parked]
    assert (heard, worker.epoch.losses) == ([Loss.REPLACED], 1)
    assert await has_leases(replica, kept)


async def test_what_a_person_does_counts_when_a_replica_has_it(
    watched: Watched, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await hire(replace(FAST, concurrent=1), address=address_of(watched), watched=True)
    await worker.granted("BUSY")
    await worker.parked("N001")
    # Only now: on a busy machine a replica that follows may take longer.
    monkeypatch.setattr(replicas, "CONFIRM_MS", 50)
    client = open_redis(address_of(watched))
    number, rules_of = Number("N001"), lambda _: worker.rules
    steps: Sequence[Callable[[], Awaitable[object]]] = [
        lambda: Canceller(client, rules_of).cancel(USPS, number),
        lambda: Forgetter(client, rules_of).forget(USPS, number),
        lambda: Forgetter(client, rules_of).clear_outputs({"usps:N001": 1 << 60}),
        lambda: Pauses(client, rules_of).pause(courier_line(USPS), 60.0),
        lambda: Pauses(client, rules_of).resume(courier_line(USPS)),
    ]
    replica = watched.other(watched.primary())

    for step in steps:
        replica.pause()
        with pytest.raises(LimitsDown, match="too few replicas that confirm"):
            await step()
        replica.resume()
        await keep_trying(step)
    await client.aclose()


@pytest.mark.prove
async def test_what_was_parked_before_a_promotion_waits_after_it(
    watched: Watched, hire: Hire
) -> None:
    worker = await hire(replace(FAST, concurrent=1), address=address_of(watched), watched=True)
    await worker.granted("BUSY")
    parked = [f"N{number:03}" for number in range(20)]
    for number in parked:
        await worker.parked(number)
    old = watched.primary()
    replica = watched.cut_replication()

    with pytest.raises(LimitsDown, match="too few replicas that confirm"):
        await worker.admit("N999", "job-999")
    old.kill()
    replica.resume()
    await asyncio.to_thread(watched.await_promotion, replica)
    parking = asyncio.create_task(keep_trying(lambda: worker.admit("N999", "job-999")))
    await asyncio.to_thread(watched.mend)

    async with asyncio.timeout(PATIENCE):
        assert isinstance(await parking, Parked)
    async with Redis.from_url(replica.url, decode_responses=True) as client:
        assert await client.lrange(KEYS.wait_list, 0, -1) == [*parked, "N999"]


@pytest.mark.prove
async def test_a_frozen_primary_is_left_within_seconds_of_a_promotion(
    watched: Watched, hire: Hire, measured: dict[str, list[str]]
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
        took = await serving - promoted
    measured["scripts are answered after a promotion by Sentinels"] = [f"{took:.2f} s"]
    assert took < BACK_SECONDS
