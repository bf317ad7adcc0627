"""What a job tells of itself: its key, the same at every delivery, and its age."""

from __future__ import annotations

import re

from tubes_hands import Begin, Hands, Producer

from devstack.servers import Server
from service.tubes.held import Source


async def keys(hands: Hands, number: int) -> list[str]:
    return [job.key for job in await hands.have(number)]


async def test_a_jobs_key_is_its_own_and_stays_with_it(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"")
    producer.put(b"")
    intake, hands = begin(source)
    first = await keys(hands, 2)
    await intake.close()

    _, again = begin(source)

    assert sorted(await keys(again, 2)) == sorted(first)
    assert len(set(first)) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{16}", key) for key in first)


async def test_a_jobs_key_changes_with_the_server_that_numbers_it(
    begin: Begin, source: Source, producer: Producer, beanstalkd: Server
) -> None:
    producer.put(b"")
    _, hands = begin(source)
    (before,) = await keys(hands, 1)

    beanstalkd.kill()
    beanstalkd.start()
    _, after = await keys(hands, 2)

    assert hands.jobs[0].id == hands.jobs[1].id
    assert before != after


async def test_a_jobs_age_is_told_while_it_is_ours(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"")
    _, hands = begin(source)
    (job,) = await hands.have(1)

    assert 0 <= await job.age() < 60
