"""The parent with real processes and real signals; only the work of the children is left out."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from family import Family, Start, alive, until

from service.worker.supervisor.parent import Plan, Slot
from service.worker.supervisor.pulse import pulses


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_children_in_good_order(start: Start, number: signal.Signals) -> None:
    family = start()
    pids = family.await_started(2)
    family.signal(number)
    assert family.exit_code() == 0
    assert sorted(family.noted("stopped")) == sorted(pids)
    assert not [pid for pid in pids if alive(pid)]


def test_a_killed_child_is_started_again(start: Start) -> None:
    family = start()
    first = family.await_started(2)[0]
    os.kill(first, signal.SIGKILL)
    assert len(set(family.await_started(3))) == 3
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    (died,) = [event for event in family.events() if event["event"] == "process died"]
    assert (died["pid"], died["code"]) == (first, -signal.SIGKILL)


def test_a_child_that_keeps_dying_is_started_again_and_again(start: Start) -> None:
    family = start("dying", processes=1)
    family.await_started(5)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    delays = [event["delay_ms"] for event in family.events() if event["event"] == "process died"]
    assert delays == [50, 100, 200, 200]


def test_what_children_count_is_added_up_also_of_those_that_died(start: Start) -> None:
    family = start("dying-once", processes=1)
    family.await_started(2)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    counted = family.counted()
    assert counted["tracker_repairs_total", "drain"] == 3 * 2
    assert counted["tracker_repairs_total", "process"] == 1


def test_a_stopped_child_is_killed_after_the_silence_and_one_that_beats_is_left_alone(
    start: Start,
) -> None:
    family = start(silence=2.0)
    stopped, _ = family.await_started(2)
    until(lambda: len(family.noted("beaten")) == 2, "both beat")
    os.kill(stopped, signal.SIGSTOP)
    assert len(family.await_started(3)) == 3
    assert not alive(stopped)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    (silent,) = [event for event in family.events() if "silent_ms" in event]
    assert silent["pid"] == stopped
    assert silent["silent_ms"] >= 2000


def test_a_parent_whose_lines_nobody_reads_kills_the_silent_and_stops(
    start: Start, unread: int
) -> None:
    family = start("silent-once", processes=1, silence=1.0, out=unread)
    family.await_started(2)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0


def test_a_child_that_starts_slowly_is_left_alone(start: Start) -> None:
    family = start("slow", processes=1, silence=1.0)
    (pid,) = family.await_started(1)
    until(lambda: bool(family.noted("beaten")), "its first beat, twice the silence later")
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    assert family.noted("stopped") == [pid]


def test_being_frozen_together_is_no_silence(start: Start) -> None:
    family = start(processes=1, silence=1.5)
    (pid,) = family.await_started(1)
    for each in (family.parent.pid, pid):
        os.kill(each, signal.SIGSTOP)
    time.sleep(2.0)  # longer than the silence that is allowed
    for each in (family.parent.pid, pid):
        os.kill(each, signal.SIGCONT)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    assert family.noted("stopped") == [pid]


def test_a_second_signal_kills_at_once(start: Start) -> None:
    family = start("deaf", grace=60.0)
    pids = family.await_started(2)
    family.signal(signal.SIGTERM)
    until(lambda: len(family.noted("asked")) == 2, "both children were asked")
    assert all(alive(pid) for pid in pids)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 1
    assert not [pid for pid in pids if alive(pid)]
    killed = [event for event in family.events() if "killed" in event["event"]]
    assert [event["event"] for event in killed] == ["process is killed on request"] * 2
    assert all(event["waited_ms"] < 20_000 for event in killed)


def test_what_does_not_stop_in_its_grace_is_killed(start: Start) -> None:
    family = start("deaf", processes=1, grace=0.0)
    (pid,) = family.await_started(1)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 1
    assert not alive(pid)
    assert family.noted("asked") == [pid]
    (killed,) = [event for event in family.events() if "killed" in event["event"]]
    assert killed["event"] == "process did not stop and is killed"
    assert killed["waited_ms"] >= 100  # the grace, and the margin of the driver


def test_a_child_that_refuses_its_settings_ends_all(start: Start) -> None:
    family = start("refusing")
    assert family.exit_code() == 2
    assert len(family.noted("started")) <= 2


def test_a_child_that_is_refused_while_another_works_is_started_until_it_is_not(
    start: Start,
) -> None:
    family = start("refusing-later")
    first, second = family.await_started(2)

    os.kill(first, signal.SIGKILL)
    last = family.await_started(5)[-1]

    assert alive(second)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    assert sorted(family.noted("stopped")) == sorted([second, last])
    died = [event["code"] for event in family.events() if event["event"] == "process died"]
    assert died == [-signal.SIGKILL, 2, 2]


def test_children_stop_when_their_parent_is_killed(start: Start) -> None:
    family = start()
    pids = family.await_started(2)
    family.signal(signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in pids), "the children ended")
    assert sorted(family.noted("stopped")) == sorted(pids)


def test_a_child_that_does_not_stop_after_its_parent_was_killed_is_asked_once_and_ended(
    start: Start,
) -> None:
    """A second signal would mean "at once"."""
    family = start("deaf", processes=1)
    (pid,) = family.await_started(1)
    family.signal(signal.SIGKILL)
    until(lambda: not alive(pid), "the child ended")
    assert family.noted("asked") == [pid]


def test_a_child_that_hangs_is_ended_after_its_parent_was_killed(start: Start) -> None:
    family = start("hanging", processes=1, silence=60.0)
    until(lambda: bool(family.noted("silent")), "the child hangs")
    (pid,) = family.noted("silent")
    family.signal(signal.SIGKILL)
    until(lambda: not alive(pid), "the child ended")
    assert family.noted("asked") == [pid]


def test_a_child_asked_by_somebody_else_too_is_asked_softly(start: Start) -> None:
    """A service manager may signal the children beside the parent; that is no second signal."""
    family = start(processes=1)
    (pid,) = family.await_started(1)
    os.kill(pid, signal.SIGTERM)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    assert pid in family.noted("stopped")


def test_the_parent_sleeps_while_nothing_happens(start: Start) -> None:
    family = start(processes=1, silence=30.0)
    family.await_started(1)
    stat = Path(f"/proc/{family.parent.pid}/stat")

    def ticks() -> int:
        fields = stat.read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def sleeps() -> bool:
        before = ticks()
        time.sleep(1.0)  # the span that is measured
        return ticks() - before <= 1

    until(lambda: bool(family.events()), "the parent works")
    # It may still be at what a start takes; one that spins takes a hundred in each second.
    until(sleeps, "the parent sleeps")


def test_the_delay_doubles_and_starts_again_after_a_healthy_minute() -> None:
    plan = Plan(command=[], processes=1, silence=1.0, grace=1.0)
    slot = Slot(0)
    delays = [slot.fell_empty(plan, lived=1.0, now=0.0) for _ in range(9)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert slot.fell_empty(plan, lived=60.0, now=100.0) == 0.5
    assert slot.start_at == 100.5


def await_archivers(family: Family, count: int) -> list[int]:
    until(lambda: len(family.archiver_noted("started")) >= count, f"{count} archivers started")
    return family.archiver_noted("started")


def test_it_starts_when_a_worker_works_and_stops_with_the_workers(start: Start) -> None:
    family = start(processes=2, archiver="well")
    (archiver,) = await_archivers(family, 1)
    workers = family.await_started(2)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    assert family.archiver_noted("stopped") == [archiver]
    assert not [pid for pid in (archiver, *workers) if alive(pid)]
    begun = [event for event in family.events() if event["event"] == "process started"]
    assert {each["process"]: each["pid"] for each in begun}["archiver"] == archiver
    assert family.counted()["tracker_repairs_total", "drain"] == 3 * 3, "what it counts is added"


def test_before_a_worker_works_it_does_not_start_and_the_parent_sleeps(start: Start) -> None:
    family = start("hanging", processes=1, archiver="well")
    until(lambda: bool(family.noted("silent")), "the worker hangs before it works")
    schedule = Path(f"/proc/{family.parent.pid}/schedstat")

    def ran_ms() -> float:
        return int(schedule.read_text().split()[0]) / 1e6

    before = ran_ms()
    time.sleep(1.0)  # the span that is measured
    assert family.archiver_noted("started") == []
    assert ran_ms() - before <= 10


def test_a_silent_or_killed_archiver_is_started_again(start: Start) -> None:
    family = start(processes=1, silence=1.5, archiver="silent-once")
    first, second = await_archivers(family, 2)
    assert not alive(first)
    os.kill(second, signal.SIGKILL)
    assert len(set(await_archivers(family, 3))) == 3
    assert len(family.noted("started")) == 1


def test_its_end_is_started_again_while_no_worker_works_any_more(start: Start) -> None:
    family = start("dying-once", processes=1, archiver="dying")
    await_archivers(family, 5)


def test_workers_that_are_all_refused_end_the_parent_without_it(start: Start) -> None:
    family = start("refusing", archiver="well")
    assert family.exit_code() == 2
    assert family.archiver_noted("started") == []


def test_the_pulse_tells_of_workers_only_and_it_stops_when_its_parent_is_killed(
    start: Start,
) -> None:
    family = start(processes=1, archiver="well")
    (archiver,) = await_archivers(family, 1)
    until(lambda: any(each.beating for each in pulses(family.installation)), "the worker beats")
    (pulse,) = pulses(family.installation)
    assert (pulse.processes, pulse.beating) == (1, 1)
    family.signal(signal.SIGKILL)
    until(lambda: not alive(archiver), "the archiver ended")
    assert family.archiver_noted("stopped") == [archiver]
