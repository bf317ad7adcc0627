"""A worker that pauses, stops or closes takes no more jobs."""

from __future__ import annotations

import asyncio

from tubes_hands import Begin, Producer, count, ready, reserved, until

from service.tubes.held import Source
from service.tubes.intake import Intake


async def test_a_pause_takes_nothing_and_its_end_takes_everything(
    begin: Begin, source: Source, producer: Producer
) -> None:
    intake, hands = begin(source)
    await until(lambda: count(producer, "current-waiting") == 1)
    intake.pause()
    await until(lambda: count(producer, "current-waiting") == 0)
    producer.put(b"")
    await asyncio.sleep(0.1)

    assert (hands.jobs, ready(producer), intake.held) == ([], 1, 0)

    intake.resume()
    await hands.have(1)


async def test_a_pause_ends_the_taking_of_what_is_ready_with_the_batch_under_way(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(50):
        producer.put(b"")
    intake, hands = begin(source, room=100)

    def pause_after_the_second() -> None:
        if len(hands.batches) == 2:
            intake.pause()

    hands.then = pause_after_the_second
    await hands.have(5)
    await intake.stop()  # returns when whatever was asked for has come

    assert hands.batches == [1, 4]
    assert (reserved(producer), ready(producer)) == (5, 45)


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
