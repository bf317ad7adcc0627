"""The door: every request that it took is in a tube or in the spool, and gets into a tube later."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from types import SimpleNamespace

import greenstalk
import pytest
from door_ground import Lines, jobs, jobs_in, open_door, until

from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import Server, running
from service.client import door as door_module
from service.client.door import Door, TooSlow
from service.client.spool import SPARE_BYTES, Spool
from service.observe.background import Background
from service.tubes import outlets as outlets_module
from service.tubes.envelope import REQUESTS_TUBE
from tracking.errors import SpoolDown

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def path(disk: Path) -> Path:
    return disk / "spool.sqlite"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for a server, and into the spool, every now and then."""
    monkeypatch.setattr(outlets_module, "AVOIDED", 0.1)
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
    bodies = [b"%d" % number for number in range(1_000)]
    monkeypatch.setattr(door_module, "TOGETHER_MOST", 100)
    async with open_door(path, NOWHERE) as first:
        await first.take(jobs(*bodies))

    def failing(*_: object) -> None:
        raise SpoolDown("no room to delete")

    async with open_door(path, beanstalkd) as door:
        with monkeypatch.context() as full:
            full.setattr(Spool, "delete", failing)
            async with emptying(door):
                await until(lambda: waiting(beanstalkd) == 1_000, "all are put")
                async with open_door(path, NOWHERE) as other:
                    await other.take(jobs(b"last"))
                await until(lambda: waiting(beanstalkd) == 1_001, "what came later is put, too")
        async with emptying(door):
            await until(lambda: not spooled(path), "the spool is empty")

    assert jobs_in(beanstalkd) == [*bodies, b"last"]


@pytest.mark.usefixtures("hasty")
async def test_one_that_no_server_takes_holds_nobody_up(path: Path, beanstalkd: Server) -> None:
    async with open_door(path, NOWHERE) as first:
        await first.take(jobs(b"x" * 70_000, *(b"%d" % number for number in range(200))))
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
            door.take(jobs(b"1")), door.take(jobs(b"x" * 70_000)), return_exceptions=True
        )

    assert small == [False]
    assert isinstance(large, SpoolDown)
    assert jobs_in(beanstalkd) == [b"1"]


@pytest.fixture
def other() -> Iterator[Server]:
    with running(BEANSTALKD) as server:
        yield server


async def test_a_second_server_takes_what_the_first_cannot(
    path: Path, beanstalkd: Server, other: Server
) -> None:
    beanstalkd.kill()
    async with open_door(path, beanstalkd, other) as door:
        assert await door.take(jobs(b"1", b"2")) == [False, False]

    assert jobs_in(other) == [b"1", b"2"]
