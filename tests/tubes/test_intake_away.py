"""Intake: beanstalkd killed, frozen, started late, and servers that talk nonsense."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import greenstalk
from tubes_hands import SOON, Begin, Producer, count, ready, reserved, until

from devstack.servers import Server, free_port
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.held import Source


def client(server: Server) -> Producer:
    address = (server.host, server.port)
    return greenstalk.Client(address, encoding=None, use=REQUESTS_TUBE, watch=REQUESTS_TUBE)


async def test_handles_die_with_a_killed_server_and_its_jobs_come_again_after_its_restart(
    begin: Begin, source: Source, beanstalkd: Server
) -> None:
    with client(beanstalkd) as producer:
        ids = [producer.put(b"%d" % number) for number in range(5)]
    intake, hands = begin(source)
    before = list(await hands.have(5))

    beanstalkd.kill()
    await until(lambda: all(job.lost for job in before))
    await until(lambda: intake.errors[0] is not None)
    beanstalkd.start()
    after = (await hands.have(10))[5:]

    assert [job.id for job in after] == ids
    with client(beanstalkd) as producer:
        await asyncio.gather(*(job.delete() for job in before))
        assert reserved(producer) == 5  # deleting over a dead handle deleted nothing
        await asyncio.gather(*(job.delete() for job in after))
        assert (reserved(producer), ready(producer)) == (0, 0)
    assert intake.errors == [None]


async def test_a_job_can_be_settled_while_its_server_is_down(
    begin: Begin, source: Source, beanstalkd: Server, producer: Producer
) -> None:
    producer.put(b"")
    intake, hands = begin(source)
    (job,) = await hands.have(1)
    beanstalkd.kill()

    async with asyncio.timeout(SOON):
        await job.delete()

    assert intake.held == 0


async def test_a_frozen_server_does_not_stop_the_event_loop(
    begin: Begin, source: Source, beanstalkd: Server, producer: Producer
) -> None:
    producer.put(b"")
    _, hands = begin(source)
    (job,) = await hands.have(1)
    beanstalkd.pause()
    try:
        deleting = job.delete()
        turns = 0
        while not deleting.done():
            await asyncio.sleep(0.01)
            turns += 1
    finally:
        beanstalkd.resume()

    assert turns > 10  # one per 10 ms, for the second that the reply was waited for
    assert job.lost
    # The delete may have left before the connection ended: then the job does not come again.
    producer.put(b"next")
    await until(lambda: b"next" in [each.body for each in hands.jobs])
    for each in hands.jobs[1:]:
        await each.delete()


async def test_closing_does_not_wait_for_a_frozen_server(
    begin: Begin, source: Source, beanstalkd: Server, producer: Producer
) -> None:
    patient = replace(source, timeouts=replace(source.timeouts, reply=60.0))
    producer.put(b"")
    intake, hands = begin(patient)
    (job,) = await hands.have(1)
    beanstalkd.pause()
    try:
        deleting = job.delete()
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await intake.close()
        took = time.monotonic() - began
        await asyncio.wait_for(deleting, SOON)
    finally:
        beanstalkd.resume()

    assert took < SOON


async def test_a_worker_starts_with_one_server_and_takes_the_other_when_it_comes(
    begin: Begin, source: Source, producer: Producer, other: Server
) -> None:
    other.kill()
    late = replace(source, server=other.url)
    intake, hands = begin(source, late)
    producer.put(b"here")
    await hands.have(1)
    await until(lambda: "refused" in (intake.errors[1] or ""))
    assert intake.errors[0] is None

    other.start()
    with client(other) as second:
        second.put(b"there")
        jobs = await hands.have(2)

    assert jobs[1].body == b"there"
    await until(lambda: intake.errors[1] is None)


async def test_one_servers_death_disturbs_no_job_of_another(
    begin: Begin, source: Source, producer: Producer, other: Server
) -> None:
    _, hands = begin(source, replace(source, server=other.url))
    with client(other) as second:
        second.put(b"there")
        producer.put(b"here")
        jobs = await hands.have(2)
    here = next(job for job in jobs if job.body == b"here")
    there = next(job for job in jobs if job.body == b"there")

    other.kill()
    await until(lambda: there.lost)
    await here.delete()

    assert not here.lost
    assert reserved(producer) == 0


async def test_a_dead_server_keeps_no_room_from_the_others(
    begin: Begin, source: Source, producer: Producer, other: Server
) -> None:
    intake, hands = begin(source, replace(source, server=other.url), room=1)
    await until(lambda: intake.errors[1] is None)
    for _ in range(3):
        producer.put(b"here")
    await hands.have(1)
    with client(other) as second:
        second.put(b"there")
        # Its thread has found no room and is the first that is to get some.
        await until(lambda: count(second, "cmd-release") == 1)
        other.kill()
    await until(lambda: intake.errors[1] is not None)

    for number in range(3):
        jobs = await hands.have(number + 1)
        await jobs[number].delete()

    assert [job.body for job in hands.jobs] == [b"here"] * 3


async def test_room_taken_by_lost_jobs_comes_back_with_their_settling(
    begin: Begin, source: Source, beanstalkd: Server
) -> None:
    with client(beanstalkd) as producer:
        for _ in range(6):
            producer.put(b"")
    _, hands = begin(source, room=3)
    lost = list(await hands.have(3))
    beanstalkd.kill()
    beanstalkd.start()
    await until(lambda: all(job.lost for job in lost))

    for job in lost:
        await job.release()
    new = (await hands.have(6))[3:]

    assert len({job.id for job in new}) == 3


async def test_an_address_where_nobody_listens_is_no_fault(begin: Begin, source: Source) -> None:
    intake, _ = begin(replace(source, server=f"127.0.0.1:{free_port()}"))

    await until(lambda: "refused" in (intake.errors[0] or ""))
    await intake.stop()


async def test_a_server_that_hangs_up_again_and_again_is_asked_less_and_less_often(
    begin: Begin, source: Source
) -> None:
    came: list[float] = []

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(time.monotonic())
        writer.close()

    rude = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = rude.sockets[0].getsockname()[1]
    begin(replace(source, server=f"127.0.0.1:{port}"))
    await until(lambda: len(came) >= 5)
    rude.close()

    assert came[4] - came[3] > came[1] - came[0]
    assert came[4] - came[0] > 0.3  # at least half of 0.05 + 0.1 + 0.2 + 0.4 seconds
