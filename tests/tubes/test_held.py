"""Reserved jobs: settled or lost, their keys, and the budget that they share."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import greenstalk
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tubes_hands import Begin, Hands, Producer, count, ready, reserved, until

from devstack.servers import Server
from service.worker.tubes import held
from service.worker.tubes.held import FairBudget, ReservedJob, Source
from service.worker.tubes.intake import Intake
from tracking.errors import TubesDown


def facts(producer: Producer, job: int) -> tuple[str, int]:
    stats: Any = producer.stats_job(job)
    return stats["state"], stats["pri"]


async def test_a_deleted_job_is_gone(begin: Begin, source: Source, producer: Producer) -> None:
    job = producer.put(b"")
    _, hands = begin(source)
    (taken,) = await hands.have(1)

    await taken.delete()

    with pytest.raises(greenstalk.NotFoundError):
        producer.peek(job)


@pytest.mark.parametrize("priority", [0, 7, 2**32 - 1])
async def test_a_buried_job_keeps_its_priority(
    begin: Begin, source: Source, producer: Producer, priority: int
) -> None:
    job = producer.put(b"", priority=priority)
    _, hands = begin(source)
    (taken,) = await hands.have(1)

    await taken.bury()

    assert facts(producer, job) == ("buried", priority)


@pytest.mark.parametrize("priority", [0, 7, 2**32 - 1])
async def test_a_released_job_is_ready_at_once_with_its_priority(
    begin: Begin, source: Source, producer: Producer, priority: int
) -> None:
    job = producer.put(b"", priority=priority)
    intake, hands = begin(source)
    (taken,) = await hands.have(1)
    await intake.stop()

    await taken.release()

    assert facts(producer, job) == ("ready", priority)


async def test_many_jobs_are_settled_together_each_in_its_way(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for number in range(300):
        producer.put(b"%d" % number, priority=number)
    intake, hands = begin(source, room=300)
    jobs = list(await hands.have(300))
    await intake.stop()

    ways = ("delete", "bury", "release")
    await asyncio.gather(*(getattr(job, ways[job.id % 3])() for job in jobs))

    assert (reserved(producer), ready(producer)) == (0, 100)
    assert count(producer, "current-jobs-buried") == 100
    for job in jobs:
        if job.id % 3:
            assert facts(producer, job.id) == (("buried", "ready")[job.id % 3 - 1], job.id - 1)


async def test_only_the_first_settling_counts(
    begin: Begin, source: Source, producer: Producer
) -> None:
    job = producer.put(b"")
    intake, hands = begin(source)
    (taken,) = await hands.have(1)

    await taken.bury()
    await taken.delete()
    await taken.release()
    await intake.stop()

    assert facts(producer, job)[0] == "buried"
    assert intake.held == 0


async def test_who_stops_waits_for_the_deletes_that_nobody_else_waits_for(
    begin: Begin, source: Source, producer: Producer
) -> None:
    for _ in range(300):
        producer.put(b"")
    intake, hands = begin(source, room=300)
    taken = await hands.have(300)
    await intake.stop()

    for job in taken:
        job.delete()
    await intake.all_answered()
    await intake.close()

    assert (reserved(producer), ready(producer)) == (0, 0)
    assert count(producer, "cmd-delete") == 300


async def test_a_caller_that_stops_waiting_for_a_delete_does_not_undo_it(
    begin: Begin, source: Source, producer: Producer
) -> None:
    producer.put(b"")
    _, hands = begin(source)
    (taken,) = await hands.have(1)
    deleting = taken.delete()

    deleting.cancel()

    await until(lambda: count(producer, "current-jobs-reserved") == 0)
    assert count(producer, "cmd-delete") == 1
    with pytest.raises(asyncio.CancelledError):
        await deleting


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was held up: its first touch comes after the shortest TTR."""
    monkeypatch.setattr(held, "YOUNG", 1.5)


async def run_out(begin: Begin, source: Source, producer: Producer) -> tuple[Intake, ReservedJob]:
    """Hold a job whose TTR has run out, so that it is ready for others."""
    producer.put(b"", ttr=1)
    producer.put(b"", ttr=60)
    intake, hands = begin(source)
    taken, other = await hands.have(2)
    await intake.stop()
    # beanstalkd 1.12 may not notice that a TTR ran out before the job's connection asks something,
    # and a touch would save the job even then.
    await asyncio.sleep(1.1)
    await other.delete()
    await until(lambda: ready(producer) == 1)
    return intake, taken


@pytest.mark.usefixtures("late")
async def test_a_job_whose_time_ran_out_is_noted_and_its_late_delete_is_no_fault(
    begin: Begin, source: Source, producer: Producer
) -> None:
    intake, taken = await run_out(begin, source, producer)
    elsewhere = producer.reserve(timeout=0)
    assert elsewhere.id == taken.id

    await until(lambda: producer.touch(elsewhere) or taken.lost)
    await taken.delete()
    assert facts(producer, taken.id)[0] == "reserved"
    assert intake.held == 0
    with pytest.raises(TubesDown):
        await taken.age()


@pytest.mark.usefixtures("late")
async def test_a_late_delete_of_a_job_that_nobody_has_taken_yet_deletes_it(
    begin: Begin, source: Source, producer: Producer
) -> None:
    _, taken = await run_out(begin, source, producer)

    await taken.delete()

    assert ready(producer) == 0


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


class Claimant:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_there_is_never_more_than_there_is() -> None:
    budget, claimant = FairBudget(5), Claimant()

    assert [budget.take(claimant, 3), budget.take(claimant, 3), budget.take(claimant, 3)] == [
        3,
        2,
        0,
    ]


def test_who_found_no_room_is_woken_when_some_is_given_back() -> None:
    budget, first, second = FairBudget(1), Claimant(), Claimant()
    budget.take(first, 1)
    budget.take(second, 1)

    budget.give(1)

    assert (first.woken, second.woken) == (0, 1)
    assert budget.take(second, 1) == 1


def test_what_comes_free_belongs_to_those_who_wait_in_their_order() -> None:
    budget, first, second, third = FairBudget(1), Claimant(), Claimant(), Claimant()
    budget.take(first, 1)
    budget.take(second, 1)
    budget.take(third, 1)
    budget.give(1)

    assert budget.take(first, 1) == 0
    assert budget.take(third, 1) == 0
    assert budget.take(second, 1) == 1


def test_who_leaves_holds_nobody_up() -> None:
    budget, first, second, third = FairBudget(1), Claimant(), Claimant(), Claimant()
    budget.take(first, 1)
    budget.take(second, 1)
    budget.take(third, 1)
    budget.give(1)
    before = third.woken

    budget.leave(second)

    assert third.woken == before + 1
    assert budget.take(third, 1) == 1


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60))
def test_no_order_of_events_leaves_room_unused_while_somebody_wants_it(
    most: int, events: list[tuple[int, int]]
) -> None:
    """Claimants take, give back and leave; those who were woken try again, as reservers do."""
    budget, claimants = FairBudget(most), [Claimant() for _ in range(4)]
    held = dict.fromkeys(claimants, 0)
    wanting: set[Claimant] = set()

    def take(claimant: Claimant, places: int) -> None:
        granted = budget.take(claimant, places)
        held[claimant] += granted
        (wanting.discard if granted else wanting.add)(claimant)

    for number, places in events:
        claimant = claimants[number]
        if places:
            take(claimant, places)
        elif held[claimant]:
            budget.give(1)
            held[claimant] -= 1
        else:
            budget.leave(claimant)
            wanting.discard(claimant)
        for _ in claimants:
            for woken in [each for each in claimants if each.woken]:
                woken.woken = 0
                if woken in wanting:
                    take(woken, 1)

        assert sum(held.values()) == budget.taken <= most
        assert not wanting or budget.taken == most
