"""Intake: jobs on their way from a tube to the event loop, until it stops or closes."""

from __future__ import annotations

import asyncio

import greenstalk
import pytest
from tubes_hands import Begin, Producer, count, ready, reserved, until

from devstack.servers import Server
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.held import ReservedJob, Source, Touches
from service.worker.tubes.intake import Intake


async def test_a_job_wakes_an_idle_worker(begin: Begin, source: Source, producer: Producer) -> None:
    _, hands = begin(source)
    await until(lambda: count(producer, "current-waiting") == 1)

    job = producer.put(b"hello")

    (taken,) = await hands.have(1)
    assert (taken.id, taken.body, taken.server) == (job, b"hello", source.server)


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00\r\n", b"x" * 65_535, b"RESERVED 1 2\r\nab"])
async def test_bodies_arrive_byte_by_byte(
    begin: Begin, source: Source, producer: Producer, body: bytes
) -> None:
    producer.put(body)

    _, hands = begin(source)

    assert [job.body for job in await hands.have(1)] == [body]


async def test_thousands_of_jobs_come_once_each_in_batches_and_never_more_than_there_is_room(
    begin: Begin, source: Source, producer: Producer
) -> None:
    jobs, room = 1500, 200
    ids = [producer.put(b"%d" % number) for number in range(jobs)]
    intake, hands = begin(source, room=room)
    most = 0

    async def settle(job: ReservedJob) -> None:
        await asyncio.sleep(0)
        await job.delete()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        begun = 0
        while begun < jobs:
            await hands.have(begun + 1)
            new, begun = hands.jobs[begun:], len(hands.jobs)
            most = max(most, intake.held)
            for job in new:
                group.create_task(settle(job))

    assert [job.id for job in hands.jobs] == ids
    assert most <= room
    assert len(hands.batches) < jobs / 4
    assert (ready(producer), reserved(producer)) == (0, 0)


async def test_no_more_are_reserved_than_there_is_room(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(20):
        producer.put(b"")
    _, hands = begin(source, room=7)
    await hands.have(7)

    assert (reserved(producer), ready(producer)) == (7, 13)

    await asyncio.gather(*(job.delete() for job in hands.jobs[:3]))
    await hands.have(10)
    assert (reserved(producer), ready(producer)) == (7, 10)


async def test_a_job_whose_call_runs_makes_room_for_another_and_stays_reserved(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(5):
        producer.put(b"")
    intake, hands = begin(source, room=2)
    first, second = await hands.have(2)

    first.admitted()
    await hands.have(3)

    assert (reserved(producer), ready(producer)) == (3, 2)

    first.admitted()  # said again it gives nothing back
    await first.delete()
    assert (intake.held, reserved(producer), ready(producer)) == (2, 2, 2)

    await second.delete()
    await hands.have(4)
    assert (reserved(producer), ready(producer)) == (2, 1)


async def test_a_server_without_jobs_keeps_no_room_from_the_others(
    begin: Begin, source: Source, producer: Producer, other: Server
) -> None:
    elsewhere = Source(other.url, REQUESTS_TUBE, timeouts=source.timeouts)
    with greenstalk.Client((other.host, other.port), encoding=None, use=REQUESTS_TUBE) as second:
        intake, hands = begin(source, elsewhere, room=1)
        await until(lambda: count(producer, "current-waiting") == 1)
        await until(lambda: count(second, "current-waiting") == 1)
        for number in range(5):
            producer.put(b"here")
            jobs = await hands.have(number + 1)
            await jobs[number].delete()
        producer.put(b"last")
        held = (await hands.have(6))[5]
        ours = second.put(b"too many")

        # It ended a wait that began when there was room: it is given back at once.
        await until(lambda: count(second, "cmd-release") == 1)
        assert (ready(second), intake.held) == (1, 1)

        await held.delete()
        assert [job.id for job in (await hands.have(7))[6:]] == [ours]


async def test_slow_jobs_on_every_connection_keep_no_other_job_from_coming(
    begin: Begin, source: Source, producer: Producer
) -> None:
    _, hands = begin(source, room=100)
    for expected in range(1, 12):
        await until(lambda: count(producer, "current-waiting") == 1 or len(hands.jobs) > 3)
        producer.put(b"")
        await hands.have(expected)

    connections = count(producer, "current-connections")

    assert reserved(producer) == 11
    assert connections == source.connections + 1  # and the producer's own


async def test_an_idle_worker_asks_nothing(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"")
    _, hands = begin(source)
    (job,) = await hands.have(1)
    await job.delete()
    await until(lambda: count(producer, "current-waiting") == 1)
    before = count(producer, "cmd-reserve-with-timeout")

    await asyncio.sleep(0.25)

    assert count(producer, "cmd-reserve-with-timeout") == before


async def test_jobs_of_all_servers_come(
    begin: Begin, source: Source, producer: Producer, other: Server
) -> None:
    elsewhere = Source(other.url, REQUESTS_TUBE, timeouts=source.timeouts)
    _, hands = begin(source, elsewhere)
    with greenstalk.Client((other.host, other.port), encoding=None, use=REQUESTS_TUBE) as second:
        producer.put(b"here")
        second.put(b"there")
        jobs = await hands.have(2)

    assert {(job.server, job.body) for job in jobs} == {
        (source.server, b"here"),
        (other.url, b"there"),
    }


async def test_servers_share_the_room_also_when_it_is_full(
    begin: Begin, source: Source, producer: Producer, other: Server
) -> None:
    elsewhere = Source(other.url, REQUESTS_TUBE, timeouts=source.timeouts)
    with greenstalk.Client((other.host, other.port), encoding=None, use=REQUESTS_TUBE) as second:
        for _ in range(100):
            producer.put(b"")
            second.put(b"")
    _, hands = begin(source, elsewhere, room=2)

    for number in range(100):
        jobs = await hands.have(number + 1)
        await jobs[number].delete()

    servers = [job.server for job in hands.jobs[:100]]
    assert servers.count(source.server) > 20
    assert servers.count(other.url) > 20


async def test_the_tube_that_is_watched_is_the_only_one(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.use("wait_list")
    producer.put(b"drain")
    producer.use(REQUESTS_TUBE)
    producer.put(b"request")
    _, hands = begin(source)

    jobs = await hands.have(1)
    await until(lambda: count(producer, "current-waiting") == 1)

    assert [job.body for job in jobs] == [b"request"]


@pytest.mark.usefixtures("unread_log")
async def test_a_defect_lets_go_of_the_jobs_and_they_are_taken_again(
    begin: Begin, source: Source, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would be held untouched, and nobody would know."""
    breaks, touch = [KeyError("a defect")], Touches.touch_due

    async def touch_due(self: Touches, now: float) -> None:
        if self.next_at is not None and breaks:
            raise breaks.pop()
        await touch(self, now)

    monkeypatch.setattr(Touches, "touch_due", touch_due)
    job = producer.put(b"1")

    _, hands = begin(source)

    await hands.have(2)
    assert [taken.id for taken in hands.jobs] == [job, job]


async def test_a_stop_ends_the_wait_for_a_job(
    begin: Begin, source: Source, producer: Producer
) -> None:
    intake, hands = begin(source)
    await until(lambda: count(producer, "current-waiting") == 1)
    await intake.stop()
    await until(lambda: count(producer, "current-waiting") == 0)
    producer.put(b"")
    await asyncio.sleep(0.1)

    assert (hands.jobs, ready(producer), intake.held) == ([], 1, 0)


async def test_a_stop_ends_the_taking_of_what_is_ready_with_the_batch_under_way(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(50):
        producer.put(b"")
    intake, hands = begin(source, room=100)
    stopping: list[asyncio.Task[None]] = []

    def stop_after_the_second() -> None:
        if len(hands.batches) == 2:
            stopping.append(asyncio.create_task(intake.stop()))

    hands.then = stop_after_the_second
    await hands.have(21)
    await asyncio.gather(*stopping)

    assert hands.batches == [1, 4, 16], "the third was asked for in the turn that began the stop"
    assert (reserved(producer), ready(producer)) == (21, 29)


async def test_nothing_comes_after_a_stop_and_what_is_held_can_be_settled(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(50):
        producer.put(b"")
    intake, hands = begin(source, room=20)
    await hands.have(5)

    await intake.stop()
    held = len(hands.jobs)
    await asyncio.gather(*(job.delete() for job in hands.jobs))

    assert reserved(producer) == 0
    assert ready(producer) == 50 - held
    assert len(hands.jobs) == held


async def test_closing_gives_what_is_held_to_others_at_once(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(5):
        producer.put(b"")
    intake, hands = begin(source)
    await hands.have(5)

    await intake.close()
    await until(lambda: ready(producer) == 5)

    assert all(job.lost for job in hands.jobs)
    await hands.jobs[0].delete()  # it is somebody else's now
    assert ready(producer) == 5


async def test_closing_twice_or_before_anything_came_is_no_fault(source: Source) -> None:
    intake = Intake([source], 1, lambda _: None)
    await intake.close()
    intake.start()
    await intake.close()
    await intake.close()
