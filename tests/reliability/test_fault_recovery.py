"""What is promised after a crash or an outage is measured, judged, and never blamed on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from chaos import recovery
from chaos.evidence import Evidence, Judged, Meanwhile
from chaos.nemesis import Done
from chaos.proxy import Release
from chaos.report import rows
from chaos.sampler import Lease, Look
from chaos.scale import Courier, Scale
from chaos.verdict import breaches

from devstack.judge import Call

SECOND_NS = 1_000_000_000
KILLS = {"worker-1": (100.0,)}
FROZEN = Done("redis frozen", 101.0, 112.0, frozenset({"redis"}))
DRAINED = Look(99.9, {"named": 3}, {"named": "dead 1"})
"""One process drains; the other's sign of life is its own call, long after the crash."""

LEASES = {("named", "alive-7"): Lease(130.0, 130.0)}


def call(at: float) -> Judged:
    arrived = round(at * SECOND_NS)
    return Judged(Call("named", "PARCEL2", arrived, arrived + 1, 200), spoiled=False)


def run(*done: Done, calls: Sequence[float] = (), **seen: object) -> Evidence:
    meanwhile = Meanwhile(done=done, kills=KILLS, **seen)  # type: ignore[arg-type]  # a test's own words
    return Evidence(
        scale=Scale(couriers=(Courier("named", concurrent=2, per_second=2, pace=1.0),)),
        puts=(),
        documents=(),
        dead=(),
        states={},
        counts={},
        calls=tuple(call(at) for at in calls),
        left=(),
        quiet_seconds=1.0,
        meanwhile=meanwhile,
    )


def judged(evidence: Evidence) -> list[str]:
    return [breach.invariant for breach in breaches(evidence)]


def test_a_drain_goes_on_when_another_process_drains() -> None:
    taken = Look(100.6, {"named": 3}, {"named": "alive 2"})
    evidence = run(calls=(120.0,), looks=(DRAINED, taken), leases=LEASES)

    assert [round(each.took, 3) for each in recovery.drains(evidence)] == [0.6]
    assert judged(evidence) == []


def test_a_drain_job_on_its_way_is_no_drain_yet() -> None:
    on_its_way = Look(100.6, {"named": 3}, {"named": "tube:alive-3 2"})
    evidence = run(calls=(104.0,), looks=(DRAINED, on_its_way), leases=LEASES)

    assert [each.took for each in recovery.drains(evidence)] == [4.0]


@pytest.mark.parametrize(("called", "broken"), [(109.0, []), (111.0, ["I7"])])
def test_a_drain_that_nobody_takes_on_within_ten_seconds_fails_the_run(
    called: float, broken: list[str]
) -> None:
    evidence = run(calls=(called,), looks=(DRAINED,), leases=LEASES)

    assert judged(evidence) == broken


def test_a_drain_that_nobody_ever_takes_on_fails_the_run() -> None:
    last = Look(140.0, {"named": 3}, {})
    evidence = run(looks=(DRAINED, last), leases=LEASES)

    assert judged(evidence) == ["I7"]


def test_time_in_which_a_server_is_broken_is_taken_off_once() -> None:
    locked = Done("mongodb locked", 103.0, 108.0, frozenset({"mongodb"}))
    evidence = run(FROZEN, locked, calls=(116.0,), looks=(DRAINED,), leases=LEASES)

    (drain,) = recovery.drains(evidence)

    assert (drain.took, drain.clear) == (16.0, 2.0)
    assert judged(evidence) == []


@pytest.mark.parametrize(
    ("workers", "broken"), [((1, 2), ["I7"]), ((1, 2, 3), [])], ids=["not all", "all"]
)
def test_only_what_is_broken_for_every_worker_is_taken_off(
    workers: Sequence[int], broken: list[str]
) -> None:
    links = [
        Done("link to redis down", 101.0, 108.0, frozenset({f"worker-{number} to redis"}))
        for number in workers
    ]
    evidence = run(*links, calls=(112.0,), looks=(DRAINED,), leases=LEASES)

    assert judged(evidence) == broken


def test_a_worker_that_is_stopped_is_a_broken_one() -> None:
    faults = (
        Done("fail point limits.take:after", 101.0, 108.0, frozenset({"worker-1"})),
        Done("worker frozen whole", 102.0, 109.0, frozenset({"worker-2"})),
        Done("link to mongodb down", 103.0, 109.0, frozenset({"worker-3 to mongodb"})),
    )
    (drain,) = recovery.drains(run(*faults, calls=(112.0,), looks=(DRAINED,), leases=LEASES))

    assert drain.clear == 12.0 - 6.0  # worker-1 has settled last


def test_the_killed_workers_own_link_holds_its_jobs() -> None:
    link = Done(
        "link to beanstalkd a black hole", 98.0, 102.5, frozenset({"worker-1 to beanstalkd"})
    )
    evidence = run(link, releases={"worker-1": (Release(100.0, 103.0),)})

    assert judged(evidence) == []


def test_a_fault_elsewhere_excuses_nothing() -> None:
    elsewhere = Done("courier answers 429", 101.0, 112.0, frozenset({"another"}))
    by_hand = Done("wait list deleted by hand", 101.0, 112.0, frozenset({"redis"}))
    killed = Done("process killed", 92.0, 112.0, frozenset({"worker-1", "worker-2", "worker-3"}))
    evidence = run(elsewhere, by_hand, killed, calls=(111.0,), looks=(DRAINED,), leases=LEASES)

    assert judged(evidence) == ["I7"]


def test_drains_of_the_living_are_not_looked_at() -> None:
    drained = replace(DRAINED, drainers={"named": "alive 1"})
    evidence = run(calls=(125.0,), looks=(drained,), leases=LEASES)

    assert recovery.drains(evidence) == []


def test_the_slots_of_a_dead_process_are_told_from_those_of_others() -> None:
    leases = {
        ("named", "dead-1"): Lease(99.0, 104.0),
        ("named", "alive-7:1"): Lease(99.0, 106.0),
        ("named", "alive-8"): Lease(101.0, 102.0),
    }

    assert [each.took for each in recovery.slots(run(leases=leases))] == [4.0]


@pytest.mark.parametrize(("until", "broken"), [(105.0, []), (109.0, ["I4", "I4"])])
def test_a_dead_processs_slot_that_outlives_its_lease_fails_the_run(
    until: float, broken: list[str]
) -> None:
    leases = {("named", "dead-1"): Lease(99.9, until), **LEASES}

    assert judged(run(leases=leases)) == broken


@pytest.mark.parametrize(("ended", "broken"), [(100.1, []), (103.0, ["I7"])])
def test_jobs_of_a_killed_process_that_are_held_fail_the_run(
    ended: float, broken: list[str]
) -> None:
    releases = {"worker-1": (Release(100.0, ended),), "worker-2": (Release(100.0, 190.0),)}

    assert judged(run(releases=releases)) == broken


@pytest.mark.parametrize(("called", "broken"), [(118.0, []), (120.0, ["I7"])])
def test_a_redis_that_is_back_without_traffic_five_seconds_after_the_quiet_time_fails_the_run(
    called: float, broken: list[str]
) -> None:
    evidence = run(FROZEN, calls=(105.0, called), looks=(Look(112.1, {"named": 1}),))

    assert judged(evidence) == broken
    assert all(breach.is_late for breach in breaches(evidence)), "a time, and nothing unsafe"


def test_nobody_who_waits_is_no_traffic_to_wait_for() -> None:
    evidence = run(FROZEN, calls=(130.0,), looks=(Look(112.1, {"named": 0}),))

    assert recovery.traffic(evidence, "redis") == []


def test_a_returned_beanstalkd_is_judged_by_its_own_answers() -> None:
    frozen = Done("beanstalkd frozen", 101.0, 112.0, frozenset({"beanstalkd"}))
    looks = (Look(112.1, {"named": 1}),)
    evidence = run(frozen, calls=(112.2,), looks=looks, heard={"beanstalkd": (100.0, 113.5)})

    assert [each.took for each in recovery.traffic(evidence, "beanstalkd")] == [1.5]


def test_the_table_shows_what_was_taken_and_what_is_allowed() -> None:
    taken = Look(100.6, {"named": 3}, {"named": "alive 2"})
    evidence = run(looks=(DRAINED, taken), leases=LEASES)

    shown = dict(rows(evidence, []))["drains of a killed process go on after"]

    assert shown == (
        "p50 0.6 s, p99 0.6 s, most 0.6 s (1); "
        "alone: p50 0.6 s, p99 0.6 s, most 0.6 s (1); judged: most 0.6 of 10 s"
    )


def test_many_couriers_are_told_by_their_limits() -> None:
    couriers = tuple(Courier(f"c-{number}", 20, 2, 1.0) for number in range(40))
    evidence = replace(run(), scale=Scale(couriers=couriers))

    assert dict(rows(evidence, []))["most calls in flight (allowed)"] == "0 (20) at 40 couriers"
