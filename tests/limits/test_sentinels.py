"""A Redis with Sentinels and replicas: who is asked, and what counts there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import redis as blocking
from limits_bench import FAST, KEYS, USPS, Hire, Worker, until
from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel

from devstack.kinds import HOST, REDIS
from devstack.sentinels import PASSWORD, SERVICE, Watched, cut_off
from devstack.sentinels import watched as running_watched
from devstack.servers import Server, running
from limits import connect, pipeline
from limits.admin.cancel import Canceller
from limits.admin.forget import Forgetter
from limits.admin.pause import Pauses
from limits.connect import open_redis, shared_secret, watched_priorities
from limits.epoch import Loss
from limits.pipeline import confirmations
from limits.server import RedisAddress
from service.config.address import host_and_port
from service.worker.flow.tasks import keep_trying
from service.worker.preflight.judgement import Grade, judge_redis
from service.worker.preflight.survey import read_redis
from tracking.call import Call, Granted, Parked
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
    monkeypatch.setattr(pipeline, "CONFIRM_MS", 50)

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
    monkeypatch.setattr(pipeline, "CONFIRM_MS", 50)
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


@pytest.fixture
def three() -> Iterator[Watched]:
    with running_watched(replicas=2) as found:
        yield found


async def granted(worker: Worker, number: str) -> bool:
    with suppress(LimitsDown):
        return isinstance(await worker.admit(number), Granted)
    return False


@pytest.mark.prove
async def test_of_two_sides_of_a_partition_only_the_one_with_most_servers_calls(
    three: Watched, hire: Hire
) -> None:
    address = address_of(three)
    old = await hire(replace(FAST, concurrent=2), address=address, watched=True, quiet_seconds=0.0)
    assert await granted(old, "N001")
    first, second, third = three.servers
    cut_off(three, (first, second))
    await asyncio.to_thread(three.await_promotion, third)

    promoted = Redis.from_url(third.url)
    assert (await promoted.info("replication"))["role"] == "master"
    await promoted.aclose()
    on_the_old_side = [await granted(old, f"O{n}") for n in range(3)]
    with pytest.raises(LimitsDown, match="too few replicas"):
        await hire(replace(FAST, concurrent=2), address=address, watched=True, quiet_seconds=0.0)

    assert on_the_old_side == [True, False, False], "it has most servers, and goes on"


@pytest.mark.prove
async def test_a_preferred_replica_is_found(three: Watched) -> None:
    async with open_redis(address_of(three)) as client:
        assert await watched_priorities(client) == [100, 100]
        assert await confirmations(client) == 1
        assert Grade.LOSES not in {each.grade for each in judge_redis(await read_redis(client))}

        async with Redis.from_url(three.other(three.primary()).url) as admin:
            await admin.config_set("replica-priority", 10)

        async def is_refused() -> bool:
            found = judge_redis(await read_redis(client))
            return "has servers of different replica-priority (10, 100)" in {
                each.what for each in found if each.grade is Grade.LOSES
            }

        await until(is_refused)


BACK_SECONDS_DEMOTED = 5.0


class Address:
    """An address that stays while what it leads to changes: a virtual IP, or a name."""

    def __init__(self, leads_to: Server) -> None:
        self.leads_to = leads_to
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there = await asyncio.open_connection(self.leads_to.host, self.leads_to.port)
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


@asynccontextmanager
async def address_of_demoted(server: Server) -> AsyncIterator[tuple[Address, str]]:
    address = Address(server)
    async with await asyncio.start_server(address.serve, HOST, 0) as listener:
        yield address, f"redis://{HOST}:{listener.sockets[0].getsockname()[1]}/0"


async def test_a_demoted_redis_is_left_at_once_for_the_one_that_its_address_leads_to(
    hire: Hire, measured: dict[str, list[str]]
) -> None:
    async with AsyncExitStack() as closing:
        old, new = closing.enter_context(running(REDIS)), closing.enter_context(running(REDIS))
        address, url = await closing.enter_async_context(address_of_demoted(old))
        worker = await hire(address=RedisAddress(url))
        await worker.granted("N001")
        made = address.connections

        address.leads_to = new
        with blocking.Redis.from_url(old.url) as admin:
            admin.replicaof(new.host, new.port)
        failed = time.monotonic()
        with pytest.raises(LimitsDown, match="is a replica and takes no writes"):
            await worker.admit("N002")

        async def served() -> bool:
            with suppress(LimitsDown):
                return bool(await worker.admit("N002"))
            return False

        await until(served)
        took = time.monotonic() - failed
        measured["a demoted Redis is left after"] = [f"{took:.2f} s"]
        assert took < BACK_SECONDS_DEMOTED
        assert address.connections == made + 1
