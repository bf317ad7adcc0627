"""Touches: held jobs stay ours, whatever their TTR."""

from __future__ import annotations

import asyncio
import gc
import operator
import time
from itertools import accumulate
from typing import Any

import pytest
from scripted_server import NOW, STATS, opened
from tubes_hands import SOON, Begin, Producer, count, reserved, until

from devstack.servers import Server
from service.worker.tubes import held
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.connection import Verb
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.tubes.held import YOUNG, ReservedJob, ReservingClient, Source, Touches
from service.worker.tubes.intake import WAIT_SECONDS

ANSWERS = {
    b"watch t\r\n": b"WATCHING 2\r\n",
    b"ignore default\r\n": b"WATCHING 1\r\n",
    b"stats\r\n": b"OK %d\r\n%b\r\n" % (len(STATS), STATS),
    b"reserve-with-timeout %d\r\n" % WAIT_SECONDS: b"RESERVED 1 0\r\n\r\n",
}


def timeouts(producer: Producer) -> int:
    return count(producer, "job-timeouts")


async def test_a_job_with_the_shortest_ttr_stays_ours(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"", ttr=1)
    _, hands = begin(source)
    (job,) = await hands.have(1)

    await asyncio.sleep(1.6)

    assert (timeouts(producer), reserved(producer), job.lost) == (0, 1, False)


async def holding_one(beanstalkd: Server, producer: Producer) -> tuple[ReservingClient, Touches]:
    """Hold a job of a minute's TTR since the instant 0."""
    producer.put(b"", ttr=60)
    client = await opened(beanstalkd.url, REQUESTS_TUBE)
    job = await client.reserve()
    assert job
    held = Touches()
    held.add([job], now=0.0)
    return client, held


async def test_a_touched_job_is_due_again_within_half_of_its_ttr(
    beanstalkd: Server, producer: Producer
) -> None:
    client, held = await holding_one(beanstalkd, producer)

    await held.touch_due(YOUNG)
    await held.touch_due(2 * YOUNG)
    client.close()

    assert held.next_at
    assert held.next_at <= 2 * YOUNG + 60 / 2


async def test_the_ttr_of_a_job_is_read_when_it_is_touched_a_second_time(
    beanstalkd: Server, producer: Producer
) -> None:
    client, held = await holding_one(beanstalkd, producer)

    await held.touch_due(YOUNG)
    first = count(producer, "cmd-touch"), count(producer, "cmd-stats-job"), held.next_at
    await held.touch_due(2 * YOUNG)
    second = count(producer, "cmd-touch"), count(producer, "cmd-stats-job")
    client.close()

    assert first == (1, 0, 2 * YOUNG)
    assert second == (2, 1)


async def test_hundreds_of_short_jobs_stay_ours_while_others_come_and_go(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(300):
        producer.put(b"held", ttr=1)
    _, hands = begin(source, room=400)
    held = list(await hands.have(300))
    ends = time.monotonic() + 1.6
    while time.monotonic() < ends:
        producer.put(b"quick", ttr=1)
        jobs = await hands.have(len(hands.jobs) + 1)
        await jobs[-1].delete()

    assert timeouts(producer) == 0
    assert not any(job.lost for job in held)
    assert reserved(producer) == 300


def reservations() -> int:
    gc.collect()
    # Not isinstance: a weak proxy whose object is gone would raise.
    return sum(type(each) is ReservedJob for each in gc.get_objects())


async def test_settled_jobs_of_a_long_ttr_are_let_go_of(
    begin: Begin, source: Source, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their next touch is due in hours."""
    monkeypatch.setattr(held, "YOUNG", 0.05)
    intake, hands = begin(source, room=400)
    for _ in range(300):
        producer.put(b"", ttr=86_400)
    jobs = list(await hands.have(300))
    await until(lambda: count(producer, "cmd-stats-job") >= 300)

    for job in jobs[10:]:
        await job.delete()
    del job, jobs[10:]
    hands.jobs.clear()

    await until(lambda: reservations() <= 20)
    assert reserved(producer) == 10
    assert intake.held == 10


async def test_lost_jobs_of_a_long_ttr_are_let_go_of(
    beanstalkd: Server, producer: Producer
) -> None:
    client, held = await holding_one(beanstalkd, producer)
    await held.touch_due(YOUNG)
    await held.touch_due(2 * YOUNG)
    client.close()

    held.forget_ended()

    assert held.next_at is None


async def test_short_jobs_on_every_connection_do_not_make_the_worker_ask_without_end(
    begin: Begin, source: Source, producer: Producer
) -> None:
    """beanstalkd answers DEADLINE_SOON at once, again and again, to who holds such a job."""
    _, hands = begin(source)
    for number in range(source.connections + 1):
        await until(lambda: count(producer, "current-waiting") == 1 or len(hands.jobs) > 3)
        producer.put(b"", ttr=1)
        await hands.have(number + 1)
    before, began = count(producer, "cmd-reserve-with-timeout"), time.monotonic()

    await asyncio.sleep(1.5)

    rate = (count(producer, "cmd-reserve-with-timeout") - before) / (time.monotonic() - began)
    assert rate < 300  # polls every 20 to 100 ms, four reserves each
    assert timeouts(producer) == 0


async def test_what_is_due_is_touched_before_more_of_what_is_ready_is_taken(
    begin: Begin, source: Source, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a long backlog costs the jobs that were taken first."""
    monkeypatch.setattr(held, "YOUNG", 0.0)
    for _ in range(50):
        producer.put(b"")
    _, hands = begin(source, room=100)
    touched: list[int] = []
    hands.then = lambda: touched.append(count(producer, "cmd-touch"))

    await hands.have(50)

    taken_before = [0, *accumulate(hands.batches[:-1])]
    assert all(map(operator.ge, touched, taken_before))
    assert len(touched) > 3


async def test_more_is_asked_for_behind_a_touch_that_is_not_answered(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it, the question would make beanstalkd look whether a time to run is over."""
    monkeypatch.setattr(held, "YOUNG", 0.0)
    unanswered: list[bytes] = []
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while command := await reader.readline():
            if answer := ANSWERS.get(command):
                writer.write(answer)
                continue
            unanswered.append(command)
            if command == NOW:
                asked.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        intake, _ = begin(Source(f"{host}:{port}", "t", timeouts=Timeouts(connect=SOON, reply=60)))
        try:
            await asyncio.wait_for(asked.wait(), SOON)
        finally:
            await intake.close()

    assert unanswered[:2] == [b"touch 1\r\n", NOW]


async def test_a_job_that_is_deleted_while_it_is_touched_is_not_lost(
    beanstalkd: Server, producer: Producer
) -> None:
    client, held = await holding_one(beanstalkd, producer)
    (job,) = client.held.values()

    touching = asyncio.create_task(held.touch_due(YOUNG))
    await asyncio.sleep(0)
    deleted = client.send(Verb.DELETE, job)
    await touching
    await deleted  # a connection that is closed before loses the job
    client.close()

    assert not job.lost


async def test_a_job_that_is_settled_soon_is_never_touched(
    begin: Begin, source: Source, producer: Producer
) -> None:
    _, hands = begin(source)
    for number in range(50):
        producer.put(b"", ttr=1)
        jobs = await hands.have(number + 1)
        await jobs[number].delete()

    stats: Any = producer.stats()
    assert (stats["cmd-touch"], stats["cmd-stats-job"]) == (0, 0)


async def test_what_is_held_is_touched_after_a_stop_too(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"", ttr=1)
    intake, hands = begin(source)
    (job,) = await hands.have(1)
    await intake.stop()

    await asyncio.sleep(1.5)
    await job.delete()

    assert (timeouts(producer), reserved(producer)) == (0, 0)
    assert count(producer, "current-jobs-ready") == 0


async def test_long_jobs_are_touched_seldom(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"", ttr=60)
    _, hands = begin(source)
    await hands.have(1)

    await until(lambda: count(producer, "cmd-touch") == 1)
    await asyncio.sleep(0.25)

    assert count(producer, "cmd-touch") == 1
