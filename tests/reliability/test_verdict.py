"""The judge finds what it is there to find: a run that breaks a promise never passes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from chaos.evidence import Evidence, Judged, Meanwhile
from chaos.measures import (
    drains_recovered,
    extra_calls,
    most_starts,
    most_starts_as_stamped,
    stamped_late,
)
from chaos.nemesis import Done
from chaos.producer import Outcome, Put
from chaos.report import page, text
from chaos.sampler import Lease, Look
from chaos.scale import Courier, Scale
from chaos.timeline import draw
from chaos.verdict import breaches, missed
from chaos.wishes import Kind, Wish

from devstack.judge import Call

NOW = 1_800_000_000.0
SECOND_NS = 1_000_000_000
NAMED = Courier("named", concurrent=2, per_second=2, pace=1.0, ids_only=True)
PLAIN = Courier("plain", concurrent=2, per_second=2, pace=1.0)


def document(slug: str, number: str, *, asked: float = NOW, tag: str = "Delivered") -> Any:
    at = dt.datetime.fromtimestamp(asked, dt.UTC)
    return {
        "_id": f"{slug}:{number}",
        "slug": slug,
        "tracking_number": number,
        "tag": tag,
        "error": None,
        "last_checked_at": at,
    }


def letter(slug: str | None, number: str | None, *ids: str, body: str = "") -> Any:
    return {
        "_id": f"{slug}:{number}",
        "slug": slug,
        "number": number,
        "operations": list(ids),
        "reason": "timeout",
        "body": body,
        "at": dt.datetime.fromtimestamp(NOW, dt.UTC),
    }


def call(number: str, at: float, ends: float, *riders: str, spoiled: bool = False) -> Judged:
    arrived, ended = round(at * SECOND_NS), round(ends * SECOND_NS)
    return Judged(Call("named", number, arrived, ended, 200, riders=riders), spoiled)


def put(wish: Wish, outcome: Outcome = Outcome.ACKNOWLEDGED) -> Put:
    return Put(wish, NOW, outcome, tries=1)


WITH_ID = Wish(Kind.NAMED, "named", "PARCEL2", "one")
WITHOUT = Wish(Kind.PLAIN, "plain", "PARCEL4")

GOOD = Evidence(
    scale=Scale(couriers=(NAMED, PLAIN)),
    puts=(put(WITH_ID), put(WITHOUT)),
    documents=(document("named", "PARCEL2"), document("plain", "PARCEL4")),
    dead=(),
    states={"one": "SUCCESS"},
    counts={"named": {"SUCCESS": 1, "lost": 1}, "plain": {"SUCCESS": 1}},
    calls=(call("PARCEL2", 0.0, 0.5),),
    left=(),
    quiet_seconds=1.0,
    meanwhile=Meanwhile(),
)


def found(evidence: Evidence) -> list[str]:
    return [breach.invariant for breach in breaches(evidence)]


def unsafe(evidence: Evidence) -> list[str]:
    return [breach.invariant for breach in breaches(evidence) if not breach.is_late]


def test_a_good_run_passes() -> None:
    assert found(GOOD) == []


def test_an_acknowledged_request_without_a_result_is_lost() -> None:
    assert found(replace(GOOD, documents=GOOD.documents[:1])) == ["I1"]


def test_an_operation_without_an_end_is_lost() -> None:
    counts = {"named": {}, "plain": {"SUCCESS": 1}}

    assert found(replace(GOOD, states={"one": "RUNNING"}, counts=counts)) == ["I1"]


def test_a_loss_quotes_what_was_logged_of_the_operation() -> None:
    logged = {"one": ["worker-1: request waits, queue"]}

    lost, *_ = breaches(replace(GOOD, states={}, meanwhile=Meanwhile(logged=logged)))

    assert str(lost).endswith("no status; worker-1: request waits, queue")


def test_who_is_one_of_a_crowd_is_dead_with_its_number() -> None:
    wish = Wish(Kind.CROWD, "named", "PARCEL9", "one-101")
    counts = {**GOOD.counts, "named": {"SUCCESS": 1, "ERROR": 1}}
    run = replace(GOOD, puts=(*GOOD.puts, put(wish)), counts=counts)
    run = replace(run, states={**GOOD.states, "one-101": "ERROR"})

    assert found(run) == ["I1"]
    assert found(replace(run, dead=(letter("named", "PARCEL9", "one-1"),))) == []


def test_a_request_under_the_id_of_another_parcel_is_refused_by_name_or_lost() -> None:
    borrowed = Wish(Kind.BORROWED, "named", "PARCEL9", "one")
    refused = letter("named", "PARCEL9", "one", body=borrowed.body.decode())

    puts = (*GOOD.puts, put(borrowed))
    assert found(replace(GOOD, puts=puts)) == ["I1"]
    assert found(replace(GOOD, puts=puts, dead=(refused,))) == []


def test_a_borrower_that_came_first_may_die_by_its_own_number() -> None:
    borrowed = Wish(Kind.BORROWED, "named", "PARCEL9", "one")
    evidence = replace(GOOD, puts=(*GOOD.puts, put(borrowed)))
    assert found(replace(evidence, dead=(letter("named", "PARCEL8", "two"),))) == ["I1"]
    assert found(replace(evidence, dead=(letter("named", "PARCEL9", "one"),))) == []


def test_a_request_whose_id_a_borrower_brought_first_is_refused_or_lost() -> None:
    owner = Wish(Kind.NAMED, "named", "PARCEL9", "one")
    refused = letter("named", "PARCEL9", "one", body=owner.body.decode())
    evidence = replace(GOOD, puts=(*GOOD.puts, put(owner)))
    assert [found(replace(evidence, dead=dead)) for dead in ((), (refused,))] == [["I1"], []]


def test_the_end_of_an_automatic_request_is_known_for_minutes_only() -> None:
    wish = Wish(Kind.AUTOMATIC, "named", "PARCEL8", "recheck")
    evidence = replace(GOOD, puts=(*GOOD.puts, put(wish), put(replace(wish, kind=Kind.TWICE))))
    evidence = replace(evidence, counts={**GOOD.counts, "named": {"SUCCESS": 2, "lost": 1}})

    assert found(evidence) == ["I1", "I1"]
    stored = (*GOOD.documents, document("named", "PARCEL8"))
    assert found(replace(evidence, documents=stored)) == []


def test_an_answer_from_before_the_request_is_none() -> None:
    old = document("plain", "PARCEL4", asked=NOW - 60)

    assert found(replace(GOOD, documents=(GOOD.documents[0], old))) == ["I1"]


def test_a_put_of_unknown_fate_may_be_missing() -> None:
    puts = (put(WITH_ID), put(WITHOUT, Outcome.UNKNOWN))

    assert found(replace(GOOD, puts=puts, documents=GOOD.documents[:1])) == []


def test_a_request_that_is_dead_with_a_reason_is_not_lost() -> None:
    dead = (letter("plain", "PARCEL4"), letter("named", "PARCEL2", "one"))
    counts = {"named": {"ERROR": 1}, "plain": {"ERROR": 1}}

    assert found(replace(GOOD, dead=dead, states={"one": "ERROR"}, counts=counts)) == []


def test_an_error_without_a_record_is_lost() -> None:
    counts = {"named": {"ERROR": 1}, "plain": {"SUCCESS": 1}}

    assert found(replace(GOOD, states={"one": "ERROR"}, counts=counts)) == ["I1"]


def test_only_what_may_expire_may_be_cancelled() -> None:
    counts = {"named": {"CANCELLED": 1}, "plain": {"SUCCESS": 1}}
    cancelled = replace(GOOD, states={"one": "CANCELLED"}, counts=counts)
    expiring = put(Wish(Kind.EXPIRING, "named", "PARCEL2", "one", expires_in=1.0))

    assert found(cancelled) == ["I1"]
    assert found(replace(cancelled, puts=(expiring, GOOD.puts[1]))) == []


def test_an_automatic_request_that_is_put_twice_may_be_cancelled_for_both() -> None:
    first = put(Wish(Kind.AUTOMATIC, "named", "PARCEL2", "one"))
    again = put(replace(WITH_ID, kind=Kind.TWICE))
    counts = {"named": {"CANCELLED": 1}, "plain": {"SUCCESS": 1}}
    evidence = replace(GOOD, states={"one": "CANCELLED"}, counts=counts)

    assert found(replace(evidence, puts=(again, GOOD.puts[1]))) == ["I1"]
    assert found(replace(evidence, puts=(first, again, GOOD.puts[1]))) == []


@pytest.mark.parametrize(
    ("waits", "dead", "told"),
    [(True, (), []), (False, (letter("named", "POISON", "p"),), []), (False, (), ["I1"])],
)
def test_a_number_that_never_succeeds_still_waits_or_is_dead_with_its_reason(
    waits: bool,  # noqa: FBT001 - a case of three
    dead: Any,
    told: list[str],
) -> None:
    puts = (*GOOD.puts, put(Wish(Kind.POISON, "named", "POISON", "p")))
    counts = {"named": {"SUCCESS": 1, "ERROR": int(not waits)}, "plain": {"SUCCESS": 1}}
    states = {"one": "SUCCESS", "p": "WAITING" if waits else "ERROR"}
    run = replace(GOOD, puts=puts, states=states, dead=dead, counts=counts)
    run = replace(run, waiting=frozenset({"named:POISON"} if waits else ()))

    assert found(replace(run, scale=replace(GOOD.scale, poison=True))) == told
    assert found(run) == (["I1"] if waits else told)


def test_a_malformed_job_needs_its_record() -> None:
    malformed = put(Wish(Kind.MALFORMED, "plain", "PARCEL6", malformed=b"{\xff"))
    puts = (*GOOD.puts, malformed)

    assert found(replace(GOOD, puts=puts)) == ["I1"]
    assert found(replace(GOOD, puts=puts, dead=(letter(None, None, body="{\ufffd"),))) == []


def test_what_nobody_has_but_a_redis_that_was_emptied_may_be_lost() -> None:
    scale = replace(GOOD.scale, forget_redis=True)
    emptied = replace(GOOD, scale=scale, documents=(), states={})

    assert found(emptied) == ["I1", "I1"]
    assert found(replace(emptied, forgotten=frozenset({"one", "plain:PARCEL4"}))) == []


@pytest.mark.parametrize(
    ("calls", "invariant"),
    [([(0.0, 9.0), (2.0, 9.0), (4.0, 9.0)], "I2"), ([(0.0, 0.1), (0.5, 0.6), (0.999, 1.1)], "I3")],
)
def test_a_broken_limit_is_seen_on_the_couriers_clock(
    calls: Sequence[tuple[float, float]], invariant: str
) -> None:
    seen = tuple(call(f"PARCEL{at}", at, ends) for at, ends in calls)

    run = replace(GOOD, calls=seen)
    assert found(run) == unsafe(run) == [invariant]


def test_a_lease_that_outlives_its_time_is_seen() -> None:
    leases = {("named", "a-1"): Lease(10.0, 18.0)}

    run = replace(GOOD, meanwhile=Meanwhile(leases=leases))
    assert found(run) == ["I4"]
    assert unsafe(run) == [], "it is a time"


def test_breaches_of_the_looks_at_redis_count() -> None:
    seen = Meanwhile(breaches=("sec_calls:named has no end",))

    run = replace(GOOD, meanwhile=seen)
    assert found(run) == unsafe(run) == ["I5"]


def test_a_run_that_never_gets_quiet_fails() -> None:
    never = replace(GOOD, left=("wait_list:named is not empty",))

    assert found(never) == unsafe(never) == ["I7"]


def test_what_ends_after_the_bound_only_is_late_and_not_lost() -> None:
    late = replace(GOOD, late=("by 3.0 s", "wait_list:named is not empty"))

    assert found(late) == ["I7", "I7"]
    assert unsafe(late) == []


@pytest.mark.parametrize(
    ("done", "second", "told"),
    [
        ((), 0.1, ["I8"]),
        ((), 0.4, []),
        ((), 0.6, []),
        ((Done("link to beanstalkd flapping", 0.0, 0.2),), 0.1, ["I8"]),
        ((Done("process frozen for a moment", 0.0, 0.2),), 0.1, []),
        ((Done("link down", 0.0, 0.2, frozenset({"worker-1 to redis"})),), 0.1, []),
    ],
)
def test_a_number_that_a_living_worker_calls_is_called_by_nobody_else(
    done: tuple[Done, ...], second: float, told: list[str]
) -> None:
    calls = (call("PARCEL2", 0.0, 0.5), call("PARCEL2", second, second + 0.5))

    assert found(replace(GOOD, calls=calls, meanwhile=Meanwhile(done=done))) == told


def test_a_rider_is_called_by_nobody_else_either() -> None:
    calls = (call("PARCEL2", 0.0, 0.5, "PARCEL4"), call("PARCEL4", 0.1, 0.6))
    scale = replace(GOOD.scale, couriers=(replace(NAMED, together=2), PLAIN))

    assert found(replace(GOOD, calls=calls, scale=scale)) == ["I8"]


def test_a_call_for_several_is_one_call_for_as_many_numbers_as_it_may() -> None:
    calls = tuple(call(f"PARCEL{at}", at / 10, at / 10 + 0.1, f"PARCEL1{at}") for at in range(2))
    several = replace(GOOD.scale, couriers=(replace(NAMED, together=2), PLAIN))

    assert found(replace(GOOD, calls=calls, scale=several)) == []
    assert found(replace(GOOD, calls=calls)) == unsafe(replace(GOOD, calls=calls)) == ["I2"]


@pytest.mark.parametrize(
    "documents",
    [
        (*GOOD.documents, GOOD.documents[0]),
        (document("named", "PARCEL2", tag="InTransit"), GOOD.documents[1]),
        (*GOOD.documents, document("named", "PARCEL8")),
    ],
)
def test_a_result_stored_twice_or_wrongly_or_unasked_is_seen(documents: Any) -> None:
    assert found(replace(GOOD, documents=documents)) == ["I8"]


@pytest.mark.parametrize("ended", [0, 2])
def test_an_operation_counted_twice_or_never_is_seen(ended: int) -> None:
    counts = {"named": {"SUCCESS": ended}, "plain": {"SUCCESS": 1}}

    assert found(replace(GOOD, counts=counts)) == ["I8"]


def test_a_traceback_in_the_log_fails_the_run() -> None:
    seen = Meanwhile(defects=("worker-1: unexpected error",))

    assert found(replace(GOOD, meanwhile=seen)) == ["log"]


def test_a_fault_or_repair_that_never_came_fails_the_run() -> None:
    seen = Meanwhile(done=(Done("redis killed", 0.0, 1.0),), events={"server is away": 2})
    run = replace(GOOD, meanwhile=seen)
    kinds = frozenset({"redis killed", "disk full"})

    assert [each.what for each in missed(run, kinds, frozenset({"lost", "repeated"}))] == [
        "never came: disk full",
        "never needed: repeated",
    ]


def test_a_stamp_that_may_be_late_is_allowed_for_and_shown_without_the_allowance() -> None:
    late = call("PARCEL2", 0.3, 0.4)
    late = replace(late, call=replace(late.call, late_ns=SECOND_NS // 2))
    run = replace(GOOD, calls=(late, call("PARCEL2", 0.9, 1.0), call("PARCEL2", 1.2, 1.3)))

    assert found(run) == []
    assert most_starts(run)["named"] == 2
    assert most_starts_as_stamped(run)["named"] == 3
    assert stamped_late(run) == 1


def test_only_calls_after_a_whole_answer_are_needless() -> None:
    calls = (
        call("PARCEL2", 0.0, 0.1, spoiled=True),
        call("PARCEL2", 1.0, 1.1),
        call("PARCEL2", 2.0, 2.1),
        call("PARCEL2", 3.0, 3.1),
    )

    assert extra_calls(replace(GOOD, calls=calls)) == 50.0


def test_a_drain_is_back_at_the_next_call_after_an_outage() -> None:
    seen = Meanwhile(
        done=(Done("redis killed", 1.0, 2.0),), looks=(Look(2.1, {"named": 3, "plain": 0}),)
    )
    calls = (call("PARCEL2", 0.5, 0.6), call("PARCEL2", 2.5, 2.6))

    assert drains_recovered(replace(GOOD, calls=calls, meanwhile=seen)).p50 == 0.5


def test_a_failing_run_prints_the_command_that_repeats_it() -> None:
    failed = replace(GOOD, left=("3 jobs in the tubes",))

    shown = text(failed, breaches(failed))

    assert "I7: not quiet: 3 jobs in the tubes" in shown
    assert "make chaos SEED=1 MINUTES=3 WORKERS=3" in shown


def test_the_page_and_the_picture_show_the_faults() -> None:
    seen = Meanwhile(done=(Done("redis killed", 0.1, 0.4),), looks=(Look(0.2, {"named": 3}),))
    run = replace(GOOD, meanwhile=seen)

    assert "| redis killed | 1 |" in page(run, [], "2026-01-01")
    assert "redis killed</text>" in draw(run)


ENDED = {"named": {"SUCCESS": 1, "lost": 1}, "plain": {"SUCCESS": 1}, "": {"SUCCESS": 2, "lost": 1}}
RIGHT = {
    **{(place, slug): ENDED[slug] for place in ("10 min", "day", "MongoDB") for slug in ENDED},
    ("10 s", ""): ENDED[""],
    ("totals", ""): {"SUCCESS": 2},
}


def test_statistics_that_tell_what_ended_pass() -> None:
    assert breaches(replace(GOOD, tallies=RIGHT)) == []


@pytest.mark.parametrize("where", list(RIGHT), ids=" ".join)
@pytest.mark.parametrize("wrong", [{}, {"SUCCESS": 3}, {"SUCCESS": 1, "ERROR": 1}])
def test_statistics_that_tell_anything_else_are_seen(
    where: tuple[str, str], wrong: dict[str, int]
) -> None:
    found = breaches(replace(GOOD, tallies={**RIGHT, where: wrong}))

    assert {breach.invariant for breach in found} == {"I8"}


def test_an_archive_that_has_each_operation_once_passes() -> None:
    right = {"one": [("named", "SUCCESS")], "plain:PARCEL4:job": [("plain", "SUCCESS")]}

    assert breaches(replace(GOOD, archived=right)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"one": [], "anonymous": [("plain", "SUCCESS")]},
        {"one": [("named", "ERROR")], "anonymous": [("plain", "SUCCESS")]},
        {"one": [("named", "SUCCESS")] * 2, "anonymous": [("plain", "SUCCESS")]},
        {"other": [("named", "SUCCESS")], "anonymous": [("plain", "SUCCESS")]},
        {"one": [("named", "SUCCESS")]},
    ],
    ids=["missing", "ended otherwise", "twice", "another", "of no id missing"],
)
def test_an_archive_that_tells_anything_else_is_seen(
    wrong: dict[str, list[tuple[str, str]]],
) -> None:
    found = breaches(replace(GOOD, archived=wrong))

    assert {breach.invariant for breach in found} == {"I8"}
