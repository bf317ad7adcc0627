"""The process that archives, as its parent treats it: like a worker, and beside the workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from family import Family, Start, alive, until

from service.supervisor.pulse import pulses


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


def test_before_a_worker_works_it_does_not_start_and_the_parent_sleeps(start: Start) -> None:
    family = start("hanging", processes=1, archiver="well")
    until(lambda: bool(family.noted("silent")), "the worker hangs before it works")
    schedule = Path(f"/proc/{family.parent.pid}/schedstat")

    def ran_ms() -> float:
        return int(schedule.read_text().split()[0]) / 1e6

    before = ran_ms()
    time.sleep(2.0)  # the span that is measured
    assert family.archiver_noted("started") == []
    assert ran_ms() - before <= 20


def test_a_killed_archiver_is_started_again(start: Start) -> None:
    family = start(processes=1, archiver="well")
    (first,) = await_archivers(family, 1)
    os.kill(first, signal.SIGKILL)
    assert len(set(await_archivers(family, 2))) == 2
    assert len(family.noted("started")) == 1


def test_a_silent_archiver_is_killed_and_started_again(start: Start) -> None:
    family = start(processes=1, silence=2.5, archiver="silent-once")
    first, second = await_archivers(family, 2)
    assert not alive(first)
    assert alive(second)
    assert len(family.noted("started")) == 1


def test_its_end_is_started_again_while_no_worker_works_any_more(start: Start) -> None:
    family = start("dying-once", processes=1, archiver="dying")
    assert len(await_archivers(family, 5)) >= 5


def test_what_it_counts_is_added_up(start: Start) -> None:
    family = start(processes=1, archiver="well")
    await_archivers(family, 1)
    family.signal(signal.SIGTERM)
    assert family.exit_code() == 0
    assert (
        "('tracker_repairs_total', 'drain'): 6" in family.notes.with_suffix(".counts").read_text()
    )


def test_workers_that_are_all_refused_end_the_parent_without_it(start: Start) -> None:
    family = start("refusing", archiver="well")
    assert family.exit_code() == 2
    assert family.archiver_noted("started") == []


def test_the_pulse_tells_of_workers_only(start: Start) -> None:
    family = start(processes=1, archiver="well")
    await_archivers(family, 1)
    until(lambda: any(each.beating for each in pulses(family.installation)), "the worker beats")
    (pulse,) = pulses(family.installation)
    assert (pulse.processes, pulse.beating) == (1, 1)


def test_it_stops_when_its_parent_is_killed(start: Start) -> None:
    family = start(processes=1, archiver="well")
    (archiver,) = await_archivers(family, 1)
    family.signal(signal.SIGKILL)
    until(lambda: not alive(archiver), "the archiver ended")
    assert family.archiver_noted("stopped") == [archiver]
