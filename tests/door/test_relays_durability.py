"""What a relay's door answered 202 to is in the tube or in the synced spool; else it says so."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from door_ground import CATALOGUE, NOWHERE, until
from relay_ground import LABEL, Sender, answered, relay, relayed, written

from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import Server, running
from service.config.load import load
from service.http.backend import bodies as bodies_module
from service.http.backend import door as door_module
from service.http.backend.door import TO_RELAYS, Waiting, open_relays_door
from service.http.backend.keyring import Keyring
from service.observe.background import Background
from service.operator import spool as spool_module
from service.operator.connections import collections_of
from service.operator.ingest_labels import ingest_key
from service.operator.spool import Relayed, Spool, saved_in, write_relayed_lines
from service.worker.deliveries.foreign_request import BODY_MOST, decode_foreign
from service.worker.tubes import put_servers

SMALL_Z = 65_535


@pytest.fixture
def path(disk: Path) -> Path:
    return disk / "spool.sqlite"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_servers, "AVOIDED", 0.1)
    monkeypatch.setattr(door_module, "LOOK_SECONDS", 0.05)


@pytest.fixture
def small() -> Iterator[Server]:
    """A beanstalkd that was started without -z."""

    def arguments(port: int, folder: Path, durability: Durability) -> list[str]:
        return [*BEANSTALKD.arguments(port, folder, durability), "-z", f"{SMALL_Z}"]

    with running(replace(BEANSTALKD, arguments=arguments)) as server:
        yield server


def spooled(path: Path) -> list[bytes]:
    with closing(Spool(path, 64)) as spool:
        return [decode_foreign(each.body).body for each in spool.oldest(1_000)]


@pytest.mark.usefixtures("hasty")
async def test_what_no_server_takes_is_spooled_and_put_by_itself_later(
    path: Path, beanstalkd: Server
) -> None:
    async with relay(path, NOWHERE) as sender:
        assert [(await sender.posts(body=each)).status for each in (b"a", b"b")] == [202, 202]
        assert sender.lines.bodies == []
    assert spooled(path) == [b"a", b"b"]

    async with relay(path, beanstalkd) as sender, Background().beside("x", sender.door.empty_spool):
        found: list[bytes] = []
        await until(
            lambda: bool(
                found.extend(each.body for each in relayed(beanstalkd)) or len(found) == 2
            ),
            "the spool is put",
        )
    assert found == [b"a", b"b"]


async def test_what_nothing_takes_is_503_and_stands_on_standard_output(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SPARE_BYTES", 1 << 60)  # the disk is full
    async with relay(path, NOWHERE) as sender:
        answer = await sender.posts(PATH_X, b"\x00\xff\n")
        assert (answer.status, b"Retry-After: 5" in answer.head) == (503, True)
        assert "nothing durable" in answer.detail
        assert str(path) not in answer.detail

    saved = tmp_path / "saved"
    descriptor = os.open(saved, os.O_WRONLY | os.O_CREAT)
    assert write_relayed_lines(sender.lines.bodies, descriptor)
    os.close(descriptor)
    lines = [b"other\n", *saved.read_bytes().splitlines(), b'{"relayed":"AA"}', b'{"relayed":"']
    job, *bad = saved_in(lines, "saved", CATALOGUE)
    assert [f"{each}".partition(":")[0] for each in bad] == ["saved", "saved"]
    assert isinstance(job, Relayed)
    found = decode_foreign(job.body)
    assert (found.target, found.body) == ("/x", b"\x00\xff\n")


PATH_X = f"/in/{LABEL}/x"


async def test_a_kill_right_after_a_202_loses_nothing(path: Path) -> None:
    child = os.fork()
    if not child:  # pragma: no cover - it is killed
        asyncio.run(killed(path))
        os._exit(1)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)

    assert os.WTERMSIG(status) == signal.SIGKILL
    assert spooled(path) == [b"kept"]


async def killed(path: Path) -> None:  # pragma: no cover - it is killed
    async with relay(path, NOWHERE) as sender:
        if (await sender.posts(body=b"kept")).status == 202:
            os.kill(os.getpid(), signal.SIGKILL)


async def test_a_server_that_takes_no_mib_makes_the_door_unready_with_the_fix(
    path: Path, small: Server
) -> None:
    async with relay(path, small) as sender:
        assert (await sender.posts(body=b"x")).status == 202
        ready = await sender.posts("/readyz", method="GET", Host="localhost")
        answer = await sender.posts(body=b"x" * SMALL_Z)
        largest = await sender.posts(body=b"x" * (SMALL_Z - 1_000))

    assert ready.status == 503
    assert b"-z 1310720" in ready.body
    assert (answer.status, f"{SMALL_Z} at most" in answer.detail) == (413, True)
    assert largest.status == 202
    assert spooled(path) == []


async def test_a_large_one_goes_to_a_server_that_takes_it(
    path: Path, small: Server, beanstalkd: Server
) -> None:
    async with relay(path, small, beanstalkd) as sender:
        for _ in range(4):
            assert (await sender.posts(body=b"x" * SMALL_Z)).status == 202
        ready = await sender.posts("/readyz", method="GET", Host="localhost")

    assert ready.status == 200
    assert len(relayed(beanstalkd)) == 4


async def test_while_one_is_away_that_may_take_it_a_large_one_is_spooled(
    path: Path, small: Server
) -> None:
    async with relay(path, small, NOWHERE) as sender:
        await sender.posts(body=b"x")
        await sender.posts(body=b"x")
        assert (await sender.posts(body=b"x" * SMALL_Z)).status == 202

    assert [len(each) for each in spooled(path)] == [SMALL_Z]


@pytest.mark.usefixtures("hasty")
async def test_bytes_in_the_tube_are_bounded_then_the_spool_then_503(
    path: Path, beanstalkd: Server
) -> None:
    body = b"x" * 300_000
    tube = replace(TO_RELAYS, bytes_most=1 << 20)
    async with relay(path, beanstalkd, mib=1, tube=tube) as sender:
        statuses = [(await sender.posts(body=body)).status for _ in range(9)]

        assert statuses[:3] == [202] * 3
        assert 202 in statuses[3:]
        assert statuses[-1] == 503
        waits = len(relayed(beanstalkd))
        assert (waits, len(sender.lines.bodies) + waits + len(spooled(path))) == (3, 9)
        async with Background().beside("relays", sender.door.empty_spool):
            await until(lambda: spooled(path) == [], "a worker took some: there is room again")


def test_bytes_in_the_tube_are_those_of_the_newest_puts() -> None:
    waiting = Waiting()
    for size in (10, 20, 30):
        waiting.add([b"x" * size] * 2)
    assert waiting.bytes == 120
    waiting.keep(5)
    assert waiting.bytes == 120
    waiting.keep(4)
    assert waiting.bytes == 100
    waiting.keep(1)
    assert waiting.bytes == 60
    waiting.keep(0)
    assert waiting.bytes == 0


async def test_bodies_beyond_what_may_be_in_memory_lie_in_a_file_and_are_kept_whole(
    path: Path, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies_module, "IN_MEMORY_MOST", 100_000)
    monkeypatch.setattr(bodies_module, "ON_THE_WAY_MOST", 70_000)
    bodies = [bytes([number]) * 50_000 for number in range(8)] + [b"\xff" * BODY_MOST]
    async with relay(path, beanstalkd) as sender:
        slow = [asyncio.create_task(slowly(sender, each)) for each in bodies]
        assert set(await asyncio.gather(*slow)) == {202}
        held = sender.relays.bodies

        assert held.in_memory == 0
        assert {each.body for each in relayed(beanstalkd)} == set(bodies)
    assert [each.name for each in path.parent.iterdir()] == []


async def slowly(sender: Sender, body: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", sender.port)
    said, pieces = written(body=body), 8
    step = len(said) // pieces + 1
    for at in range(0, len(said), step):
        writer.write(said[at : at + step])
        await writer.drain()
        await asyncio.sleep(0.01)
    answer = await answered(reader)
    writer.close()
    return answer.status


async def test_a_body_that_came_with_its_head_waits_for_its_turn_in_the_file_too(
    disk: Path, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies_module, "IN_MEMORY_MOST", 1_000)
    async with relay(disk / "spool.sqlite", beanstalkd) as sender:
        held = sender.relays.bodies
        await held.wait_for(bodies_module.ON_THE_WAY_MOST)
        said = asyncio.create_task(sender.posts(body=b"x" * 2_000))
        await until(lambda: bool(held._places), "it lies in the file")  # noqa: SLF001 - nobody else sees
        held.leave(bodies_module.ON_THE_WAY_MOST)

        assert (await said).status == 202
        assert [each.body for each in relayed(beanstalkd)] == [b"x" * 2_000]


async def test_a_sender_that_hangs_up_leaves_nothing_in_hand(
    path: Path, beanstalkd: Server
) -> None:
    async with relay(path, beanstalkd) as sender:
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", sender.port)
            writer.write(written(body=b"x" * 1_000)[:-1])
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.close()
        await until(lambda: sender.relays.bodies.in_memory == 0, "it is let go")
        assert relayed(beanstalkd) == []


async def test_the_snapshot_has_the_key_and_what_services_answer_while_mongodb_is_away(
    disk: Path, settings: dict[str, str]
) -> None:
    config = load(None, settings, Path("/")).config
    with collections_of(config) as stores:
        key = ingest_key(stores)
        stores.services.insert_one(
            {
                "_id": "s",
                "account": "main",
                "name": "shop",
                "type": "relay",
                "state": "active",
                "ingest": {"random": "r", "status": 200, "push_secret": "sealed"},
            }
        )
    ring = Keyring(config, disk / "keys.json")
    await ring.look()
    await ring.close()
    away = load(
        None, settings | {"TRACKER_MONGODB__URI": "mongodb://127.0.0.1:1"}, Path("/")
    ).config
    again = Keyring(away, disk / "keys.json")
    await again.close()

    assert again.keys.ingest_key == key
    assert again.keys.ingests["main-shop-r"].status == 200
    assert b"sealed" not in (disk / "keys.json").read_bytes()
    assert (disk / "keys.json").stat().st_mode & 0o777 == 0o600
    assert again.keys.known == {}


async def test_its_spool_is_a_file_of_its_own(disk: Path) -> None:
    door = open_relays_door(load(None, {}, Path("/")).config, disk)
    assert await door.take_jobs([b"x"]) == [True]
    await door.close()

    assert (disk / "spool-webhooks.sqlite").exists()
    assert not (disk / "spool.sqlite").exists()
