"""The epoch (lua/epoch.lua): whose state this is, and what a Redis forgets.

A new connection asks the Redis behind it for its epoch. Redis may forget its scripts, its data, or
what time it is.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from limits_bench import KEYS, USPS, Hire, Worker, counted, until
from redis.asyncio import Redis
from test_sentinels import address_of

from devstack.kinds import REDIS
from devstack.nursery import Nursery
from devstack.sentinels import Watched
from devstack.servers import running, start_server
from limits.clock import Clock
from limits.connect import open_redis
from limits.epoch import Epoch, Loss
from limits.keys import EPOCH, REVISION, SERVER
from limits.pipeline import Pipeline
from limits.script_file import BATCH, load
from limits.server import RedisAddress
from service.worker.flow.tasks import keep_trying
from tracking.call import Granted, Parked
from tracking.errors import LimitsDown

QUIET_US = 5_000_000
ANOTHER = "0123456789abcdef"
"""The run_id of a server that is not there."""


async def ask(
    worker: Worker, known: str = "", new: str = "new", *, watched: int = 0, seen: int = 0
) -> list[Any]:
    """What lua/epoch.lua answers."""
    args = [known, new, QUIET_US, watched, seen]
    return list(await worker.pipeline.run("epoch", [EPOCH, SERVER, REVISION], args))


async def test_a_worker_that_knows_no_epoch_learns_the_one_there_is(worker: Worker) -> None:
    _, *told = await ask(worker)

    assert told[:3] == [worker.epoch.name, "0", "new"]


async def test_where_there_is_no_epoch_and_none_was_known_one_begins_without_quiet(
    worker: Worker, redis: Redis
) -> None:
    await redis.delete(EPOCH)

    _, *told = await ask(worker)

    assert told[:3] == ["new", "0", "new"]
    assert await redis.get(EPOCH) == "new 0"
    assert await redis.ttl(EPOCH) == -1


async def test_a_worker_that_knew_another_epoch_learns_the_new_one_and_the_end_of_the_quiet(
    worker: Worker,
) -> None:
    now, *told = await ask(worker, "lost")

    assert told[:3] == [worker.epoch.name, f"{now + QUIET_US}", "new"]


async def test_an_epoch_that_was_begun_is_not_begun_again(worker: Worker, redis: Redis) -> None:
    await redis.flushdb()

    _, *first = await ask(worker, "known", "new")
    _, *second = await ask(worker, "known", "newer")

    assert first[0] == second[0] == "new"
    assert 0 <= int(second[1]) - int(first[1]) < 1_000_000


async def test_the_server_that_wrote_last_is_noted_and_told(worker: Worker, redis: Redis) -> None:
    run_id = (await redis.info("server"))["run_id"]

    _, *told = await ask(worker)

    assert told[3:5] == [run_id, 0]
    assert (await redis.get(SERVER)).split()[:3:2] == [run_id, "0"]
    assert await redis.ttl(SERVER) == -1


async def test_another_run_of_a_redis_that_stands_alone_keeps_no_quiet(
    worker: Worker, redis: Redis
) -> None:
    await redis.set(SERVER, f"{ANOTHER} - 0 -")

    _, *told = await ask(worker, worker.epoch.name)

    assert told[:3] == [worker.epoch.name, "0", "new"]


async def test_a_worker_of_a_version_before_that_asks_between_two_questions_is_no_loss(
    worker: Worker, redis: Redis
) -> None:
    await _ask_as_before(redis)

    await worker.epoch.agree()

    assert worker.epoch.losses == 0
    assert await redis.get(EPOCH) == f"{worker.epoch.name} 0"


async def _ask_as_before(redis: Redis) -> None:
    """Ask as versions before: what they cannot read is of another server to them."""
    known = re.fullmatch(r"(\S+) (\S+) ([01]) (\S+)", await redis.get(SERVER))
    assert known
    await redis.set(SERVER, " ".join(known.groups()))


@pytest.mark.parametrize(("seen", "watched"), [(1, 0), (0, 1)])
async def test_another_server_where_there_are_replicas_or_sentinels_begins_a_quiet_time(
    worker: Worker, redis: Redis, seen: int, watched: int
) -> None:
    await redis.set(SERVER, f"{ANOTHER} - {seen} -")

    now, *told = await ask(worker, worker.epoch.name, watched=watched)
    again = await ask(worker, "new", "newer", watched=watched)
    later, *other = await ask(worker, worker.epoch.name, "newer", watched=watched)

    assert told[:3] == again[1:4] == ["new", f"{now + QUIET_US}", "replaced"]
    assert other[:3] == ["new", f"{later + QUIET_US}", "replaced"]


async def test_a_redis_that_must_not_tell_who_it_is_is_taken_as_it_is(
    worker: Worker, redis: Redis, redis_url: str, hire: Hire
) -> None:
    await redis.execute_command("ACL", "SETUSER", "shy", "on", ">pw", "~*", "+@all", "-info")
    url = redis_url.replace("://", "://shy:pw@")
    try:
        shy = await hire(address=RedisAddress(url))
        assert (await ask(shy))[1:6] == [worker.epoch.name, "0", "new", "-", 0]
    finally:
        await redis.execute_command("ACL", "DELUSER", "shy")


async def test_no_step_goes_over_a_new_connection_before_it_is_known_whose_it_is(
    hire: Hire, redis: Redis
) -> None:
    heard: list[Loss] = []
    worker = await hire(lost=heard.append)
    await worker.granted("N001")
    await redis.set(SERVER, f"{ANOTHER} - 1 -")
    await redis.client_kill_filter(_type="normal", skipme=True)

    assert await worker.parked("N002") == Parked("quiet", put_drain=True)
    assert heard == [Loss.REPLACED]


async def test_a_redis_that_was_demoted_for_a_moment_may_lack_what_it_knew(hire: Hire) -> None:
    with running(REDIS) as server:
        worker = await hire(address=RedisAddress(server.url))
        assert isinstance(await worker.admit("N001"), Granted)
        async with Redis.from_url(server.url) as admin:
            await admin.replicaof("127.0.0.1", "1")
            with pytest.raises(LimitsDown, match="is a replica"):
                await worker.admit("N002")
            with pytest.raises(LimitsDown, match="is a replica"):
                await worker.admit("N002")
            await admin.replicaof("NO", "ONE")

        admitted = []

        async def answers() -> bool:
            with suppress(LimitsDown):
                admitted.append(await worker.admit("N002"))
            return bool(admitted)

        await until(answers)
        assert admitted == [Parked("quiet", put_drain=True)]


async def test_a_server_that_is_not_fit_is_asked_nothing(hire: Hire, redis: Redis) -> None:
    asked: list[str] = []

    async def vet(run_id: str) -> None:
        asked.append(run_id)
        if len(asked) == 2:
            raise LimitsDown("Redis has appendonly no", "Set it.")

    worker = await hire(vet=vet)
    await redis.client_kill_filter(_type="normal", skipme=True)

    with pytest.raises(LimitsDown, match="appendonly no"):
        await worker.admit("N001")
    assert await redis.exists(KEYS.calls_leases) == 0
    assert isinstance(await worker.admit("N001"), Granted)
    assert asked == [(await redis.info("server"))["run_id"]] * 3


async def test_a_redis_that_is_demoted_while_a_replica_is_waited_for_has_confirmed_nothing(
    hire: Hire,
) -> None:
    with running(REDIS) as server:
        worker = await hire(address=RedisAddress(server.url))
        worker.pipeline.confirmed = 1
        asking = asyncio.create_task(worker.admit("N001"))
        async with Redis.from_url(server.url) as admin:

            async def waited_for() -> bool:
                return (await admin.info("clients"))["blocked_clients"] == 1

            await until(waited_for)
            await admin.replicaof("127.0.0.1", "1")

        with pytest.raises(LimitsDown, match=r"too few replicas that confirm|is a replica"):
            await asking


@pytest.mark.prove
async def test_a_step_waits_for_as_many_replicas_as_it_should(hire: Hire, watched: Watched) -> None:
    worker = await hire(address=address_of(watched), watched=True)
    worker.pipeline.confirmed = 2

    with pytest.raises(LimitsDown, match="too few replicas that confirm"):
        await worker.admit("N001")


async def test_each_question_is_counted(worker: Worker) -> None:
    first, second = [(await ask(worker, worker.epoch.name))[6] for _ in range(2)]

    assert second == first + 1


async def test_a_lower_count_than_was_seen_is_that_of_an_older_copy(worker: Worker) -> None:
    known = worker.epoch.name
    count = (await ask(worker, known))[6]

    _, same, *_ = await ask(worker, known, seen=count)
    now, other, quiet, why, *_, after, _ = await ask(worker, known, new="newer", seen=count + 9)

    assert (same, other, why) == (known, "newer", "new")
    assert int(quiet) == now + QUIET_US
    assert after == count + 10


async def test_what_a_version_before_asks_until_this_worker_starts_is_no_older_copy(
    redis: Redis, redis_url: str
) -> None:
    losses: list[Loss] = []
    async with open_redis(RedisAddress(redis_url)) as client:
        epoch = Epoch(Pipeline(client, Clock()), 30.0, losses.append)
        await client.ping()  # over a connection that asked first
        run_id, before, replicated, _ = (await redis.get(SERVER)).split()
        await redis.set(SERVER, f"{run_id} {before} {replicated} -")  # as they begin it: no count

        await epoch.agree()

    assert losses == []
    assert await redis.get(EPOCH) == f"{epoch.name} 0"


async def test_a_redis_whose_files_are_an_older_copy_has_lost_its_state(
    hire: Hire, tmp_path: Path
) -> None:
    losses: list[Loss] = []
    nursery = Nursery()
    with nursery:
        server = start_server(REDIS, tmp_path, nursery)
        server.wait_ready()
        address = RedisAddress(server.url)
        worker = await hire(address=address, lost=losses.append)
        server.kill()
        shutil.copytree(tmp_path / REDIS.name, tmp_path / "copy")
        server.start()
        await keep_trying(lambda: worker.admit("N001"))
        await keep_trying(worker.epoch.agree)
        assert losses == [], "a restart with its own files is no loss"

        server.kill()
        shutil.rmtree(tmp_path / REDIS.name)
        shutil.copytree(tmp_path / "copy", tmp_path / REDIS.name)
        server.start()
        await keep_trying(worker.epoch.agree)

        assert losses == [Loss.NEW]
        assert (await worker.parked("N002")).why == "quiet"
        server.kill()


async def test_after_a_loss_nobody_starts_for_as_long_as_any_call_may_take(
    worker: Worker, redis: Redis
) -> None:
    worker.epoch.outlast = lambda: 45.0
    await redis.flushdb()

    await worker.epoch.agree()

    now, _, quiet, *_ = await ask(worker, worker.epoch.name)
    assert 44_000_000 < int(quiet) - now <= 45_000_000


QUIET = 1.0
HOUR_US = 3_600_000_000


async def test_scripts_that_redis_forgot_are_loaded_again(worker: Worker, redis: Redis) -> None:
    await redis.script_flush()

    call = await worker.granted("N001")

    assert await counted(redis, "calls") == (1,)
    assert call.request.number == "N001"


async def test_of_a_batch_only_what_redis_refused_is_sent_again(
    worker: Worker, redis: Redis
) -> None:
    await redis.script_flush()
    await redis.script_load(load()[BATCH].text)

    admissions, found, turn = await asyncio.gather(
        asyncio.gather(*(worker.admit(f"N{n:03}") for n in range(5))),
        worker.pipeline.run("survey", [KEYS.lines], [""]),
        worker.take(),
    )

    assert all(isinstance(admission, Granted) for admission in admissions)
    assert (found, turn.calls) == ([USPS], ())
    assert await counted(redis, "calls") == (5,)


async def test_scripts_that_are_forgotten_all_the_time_change_nothing(
    worker: Worker, redis: Redis
) -> None:
    over = asyncio.Event()
    flushing = asyncio.create_task(_flush_until(over, redis))

    done = 0
    try:
        for n in range(40):
            with suppress(LimitsDown):  # forgotten twice in one step: the flow repeats it
                await worker.granted(f"N{n:03}", slug=f"slug-{n}")
                done += 1
    finally:
        over.set()
        await flushing

    assert done > 0
    counts = [await redis.hget(f"tracking:counts:slug-{n}", "calls") for n in range(40)]
    assert counts.count("1") == done


async def _flush_until(over: asyncio.Event, redis: Redis) -> None:
    """A cancel may be lost in the client, where its reply comes in the same turn of the loop."""
    while not over.is_set():
        await redis.script_flush()


async def test_the_first_worker_begins_an_epoch_without_any_quiet(hire: Hire) -> None:
    first = await hire(quiet_seconds=30.0)
    second = await hire(quiet_seconds=30.0)

    assert first.epoch.name == second.epoch.name != ""
    assert isinstance(await second.admit(), Granted)


async def test_after_redis_lost_its_state_nobody_starts_for_the_quiet_time(
    hire: Hire, redis: Redis
) -> None:
    worker = await hire(quiet_seconds=QUIET)
    await worker.granted("N001")
    began = time.monotonic()
    await redis.flushdb()

    parked = await worker.parked("N002")
    assert parked == Parked("quiet", put_drain=True)

    async def taken() -> bool:
        return bool((await worker.take(claims=True)).calls)

    await until(taken)
    assert time.monotonic() - began >= QUIET
    assert worker.epoch.losses == 1


async def test_a_call_that_ran_when_redis_lost_its_state_can_end(hire: Hire, redis: Redis) -> None:
    worker = await hire(quiet_seconds=QUIET)
    call = await worker.granted("N001", id="op-1")
    await redis.flushdb()

    turn = await worker.finish(call)

    assert turn.calls == ()
    assert await redis.exists(KEYS.calls_leases, KEYS.calls_number) == 0


async def test_workers_agree_on_one_new_epoch(hire: Hire, redis: Redis) -> None:
    one, other = await hire(quiet_seconds=QUIET), await hire(quiet_seconds=QUIET)
    before = one.epoch.name
    await redis.flushdb()

    await asyncio.gather(one.admit("N001"), other.admit("N002"))
    late = await hire(quiet_seconds=QUIET)

    assert one.epoch.name == other.epoch.name == late.epoch.name != before
    assert (await late.parked("N003")).why == "queue"


async def test_a_loss_that_many_steps_find_at_once_is_one_loss(hire: Hire, redis: Redis) -> None:
    worker = await hire(quiet_seconds=QUIET)
    await redis.flushdb()

    await asyncio.gather(*(worker.admit(f"N{n:03}") for n in range(10)))

    assert worker.epoch.losses == 1


async def test_a_worker_that_only_drains_learns_the_new_epoch_too(hire: Hire, redis: Redis) -> None:
    worker = await hire(quiet_seconds=QUIET)
    await redis.flushdb()
    await redis.rpush(KEYS.wait_list, "N001")

    async def taken() -> bool:
        return bool((await worker.take(claims=True)).calls)

    await until(taken)
    assert worker.epoch.losses == 1


async def test_a_call_in_mid_way_ends_when_redis_has_lost_its_lease(
    worker: Worker, redis: Redis
) -> None:
    await worker.raw_admit("c")
    await redis.flushdb()

    _, word = await worker.raw("again", "c#2", "c")

    assert word == "gone"
