"""The door: every request that it took is in a tube or in the spool, and gets into a tube later."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import greenstalk
import pymongo
import pytest
from aftership_ground import create
from door_ground import (
    USPS,
    Client,
    Lines,
    jobs,
    jobs_in,
    open_door,
    payloads,
    post,
    refused,
    until,
)
from limits_bench import Worker
from operations_ground import in_state
from redis.asyncio import Redis

from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import Server, running
from limits.jobs import PENDING_MOST, QUEUED_KEPT_MS, Queued
from service.http.backend import door as door_module
from service.http.backend.door import Door, TooSlow
from service.observe.background import Background
from service.operator.spool import SPARE_BYTES, Spool
from service.worker.tubes import put_servers
from service.worker.tubes.envelope import REQUESTS_TUBE
from tracking.errors import SpoolDown
from tracking.operation import State

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def path(disk: Path) -> Path:
    return disk / "spool.sqlite"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for a server, and into the spool, every now and then."""
    monkeypatch.setattr(put_servers, "AVOIDED", 0.1)
    monkeypatch.setattr(door_module, "LOOK_SECONDS", 0.05)


def emptying(door: Door) -> AbstractAsyncContextManager[None]:
    return Background().beside("spool", door.empty_spool)


def waiting(server: Server) -> int:
    """How many requests lie in the tube."""
    with greenstalk.Client((server.host, server.port)) as client:
        try:
            ready: int = client.stats_tube(REQUESTS_TUBE)["current-jobs-ready"]
        except greenstalk.NotFoundError:
            return 0
    return ready


def spooled(path: Path) -> list[bytes]:
    with closing(Spool(path, 64)) as spool:
        return [each.body for each in spool.oldest(100_000)]


async def test_what_a_server_takes_is_not_spooled(path: Path, beanstalkd: Server) -> None:
    lines = Lines()
    async with open_door(path, beanstalkd, save=lines) as door:
        assert await door.take(jobs(b"1", b"2")) == [False, False]
        assert await door.health() == door_module.DoorHealth("", "", 0)

    assert jobs_in(beanstalkd) == [b"1", b"2"]
    assert lines.bodies == []


async def test_what_is_posted_together_is_put_together_in_its_order(
    path: Path, beanstalkd: Server
) -> None:
    posts = [[b"%d.%d" % (post, each) for each in range(3)] for post in range(50)]
    async with open_door(path, beanstalkd) as door:
        taken = await asyncio.gather(*(door.take(jobs(*post)) for post in posts))

    assert taken == [[False] * 3] * 50
    assert jobs_in(beanstalkd) == [body for post in posts for body in post]


async def test_what_no_server_takes_is_in_the_spool_and_on_standard_output(path: Path) -> None:
    lines = Lines()
    async with open_door(path, NOWHERE, save=lines) as door:
        assert await door.take(jobs(b"1", b"2")) == [True, True]
        assert await door.take(jobs(b"3")) == [True]

        health = await door.health()

    assert spooled(path) == lines.bodies == [b"1", b"2", b"3"]
    assert health.ready
    assert health.spooled == 3
    assert NOWHERE in health.tubes


async def test_a_server_without_a_binlog_counts_as_none(path: Path) -> None:
    with running(BEANSTALKD, Durability.NONE) as forgetful:
        async with open_door(path, forgetful) as door:
            assert await door.take(jobs(b"1")) == [True]
        assert jobs_in(forgetful) == []


async def test_a_server_in_drain_mode_takes_nothing(path: Path, beanstalkd: Server) -> None:
    assert beanstalkd.pid is not None
    os.kill(beanstalkd.pid, signal.SIGUSR1)
    async with open_door(path, beanstalkd) as door:
        await asyncio.sleep(0)
        assert await door.take(jobs(b"1")) == [True]
        assert "drain mode" in (await door.health()).tubes


async def test_a_server_that_hangs_is_waited_for_once(path: Path, beanstalkd: Server) -> None:
    async with open_door(path, beanstalkd) as door:
        await door.take(jobs(b"1"))
        beanstalkd.pause()
        try:
            assert await door.take(jobs(b"2")) == [True]
            async with asyncio.timeout(0.5):
                assert await door.take(jobs(b"3")) == [True]
        finally:
            beanstalkd.resume()


@pytest.mark.usefixtures("hasty")
async def test_the_spool_is_put_by_itself_oldest_first_once_a_server_is_back(path: Path) -> None:
    bodies = [b"%d" % number for number in range(300)]
    with running(BEANSTALKD) as later:
        later.kill()
        async with open_door(path, later) as door, emptying(door):
            for body in (bodies[:100], bodies[100:]):
                assert await door.take(jobs(*body)) == [True] * len(body)

            later.start()
            await until(lambda: not spooled(path), "the spool is empty")

        assert jobs_in(later) == bodies


@pytest.mark.usefixtures("hasty")
async def test_a_door_puts_what_another_left(path: Path, beanstalkd: Server) -> None:
    async with open_door(path, NOWHERE) as first:
        await first.take(jobs(b"1"))
    async with open_door(path, beanstalkd) as second, emptying(second):
        await until(lambda: not spooled(path), "the spool is empty")

    assert jobs_in(beanstalkd) == [b"1"]


@pytest.mark.usefixtures("hasty")
async def test_a_door_that_cannot_delete_puts_again_only_what_the_next_door_finds(
    path: Path, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_door(path, NOWHERE) as first:
        await first.take(jobs(b"1"))
    fails = 3

    def failing(self: Spool, ids: list[int]) -> None:
        nonlocal fails
        if ids and fails:
            fails -= 1
            raise SpoolDown("no room to delete")
        delete(self, ids)

    delete = Spool.delete
    monkeypatch.setattr(Spool, "delete", failing)
    async with open_door(path, beanstalkd) as door, emptying(door):
        await until(lambda: not spooled(path), "the spool is empty")

    assert jobs_in(beanstalkd) == [b"1"]


@pytest.mark.usefixtures("hasty")
async def test_what_is_put_and_cannot_be_deleted_holds_nobody_up_and_is_put_once(
    path: Path, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [b"%d" % number for number in range(300)]
    monkeypatch.setattr(door_module, "TOGETHER_MOST", 30)
    async with open_door(path, NOWHERE) as first:
        await first.take(jobs(*bodies))

    tried = []

    def failing(*asked: object) -> None:
        tried.append(asked)
        raise SpoolDown("no room to delete")

    async with open_door(path, beanstalkd) as door:
        with monkeypatch.context() as full:
            full.setattr(Spool, "delete", failing)
            async with emptying(door):
                await until(lambda: waiting(beanstalkd) == 300, "all are put")
                async with open_door(path, NOWHERE) as other:
                    await other.take(jobs(b"last"))
                await until(lambda: waiting(beanstalkd) == 301, "what came later is put, too")
                before = len(tried)
                await until(lambda: len(tried) > before, "the door knows that it is put")
        async with emptying(door):
            await until(lambda: not spooled(path), "the spool is empty")

    assert jobs_in(beanstalkd) == [*bodies, b"last"]


@pytest.mark.usefixtures("hasty")
async def test_one_that_no_server_takes_holds_nobody_up(path: Path, beanstalkd: Server) -> None:
    async with open_door(path, NOWHERE) as first:
        await first.take(jobs(b"x" * 1_400_000, *(b"%d" % number for number in range(200))))
    async with open_door(path, beanstalkd) as door, emptying(door):
        await until(lambda: len(spooled(path)) == 1, "all others are put")

    assert len(jobs_in(beanstalkd)) == 200


async def test_nothing_is_taken_where_nothing_is_durable(disk: Path) -> None:
    async with open_door(disk / "nowhere" / "spool.sqlite", NOWHERE) as door:
        with pytest.raises(SpoolDown, match=r"does not answer.*cannot be opened"):
            await door.take(jobs(b"1"))

        health = await door.health()

    assert not health.ready
    assert health.spooled is None


async def test_a_full_spool_refuses_one_post_and_takes_the_next_that_fits(path: Path) -> None:
    async with open_door(path, NOWHERE, mib=1) as door:
        with pytest.raises(SpoolDown, match="is full"):
            await door.take(jobs(b"x" * 1000) * 2000)
        assert await door.take(jobs(b"1")) == [True]

    assert spooled(path) == [b"1"]


async def test_a_door_without_a_server_is_not_ready_where_the_disk_has_no_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_door(path, NOWHERE) as door:
        await door.take(jobs(b"1"))
        disk = os.statvfs(path)
        little = SimpleNamespace(f_bavail=SPARE_BYTES // disk.f_frsize, f_frsize=disk.f_frsize)
        monkeypatch.setattr(os, "statvfs", lambda _: little)

        with pytest.raises(SpoolDown, match="is full"):
            await door.take(jobs(b"2"))
        health = await door.health()

    assert not health.ready
    assert "is full" in health.spool
    assert health.spooled == 1
    assert spooled(path) == [b"1"]


async def test_only_so_many_requests_wait_to_be_durable(
    path: Path, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "TAKEN_MOST", 3)
    async with open_door(path, beanstalkd) as door:
        taken = await asyncio.gather(
            *(door.take(jobs(b"%d" % each, b"x")) for each in range(3)), return_exceptions=True
        )
        assert [isinstance(each, TooSlow) for each in taken] == [False, True, True]
        assert await door.take(jobs(*(b"%d" % each for each in range(5)))) == [False] * 5

    assert len(jobs_in(beanstalkd)) == 2 + 5


async def test_of_posts_that_share_a_batch_only_those_fail_that_are_not_durable(
    disk: Path, beanstalkd: Server
) -> None:
    async with open_door(disk / "nowhere" / "spool.sqlite", beanstalkd) as door:
        small, large = await asyncio.gather(
            door.take(jobs(b"1")), door.take(jobs(b"x" * 1_400_000)), return_exceptions=True
        )

    assert small == [False]
    assert isinstance(large, SpoolDown)
    assert jobs_in(beanstalkd) == [b"1"]


async def test_a_second_server_takes_what_the_first_cannot(
    path: Path, beanstalkd: Server, other: Server
) -> None:
    beanstalkd.kill()
    async with open_door(path, beanstalkd, other) as door:
        assert await door.take(jobs(b"1", b"2")) == [False, False]

    assert jobs_in(other) == [b"1", b"2"]


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
