"""The plan of a fault run: drawn from its seed alone, every kind in its turn, none on top.

A courier's absence is drawn as the last fault, and judged by what it cost.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from chaos.evidence import Evidence, Judged, Meanwhile
from chaos.faults import deck
from chaos.faults.couriers import AWAY, outages
from chaos.nemesis import Done
from chaos.outage import MOST_CALLS
from chaos.plan import Planned, kinds, plan, with_last
from chaos.report import rows
from chaos.scale import COURIERS, POISONS, REFUSED_ANSWERS, Scale, couriers
from chaos.verdict import breaches
from chaos.wishes import Kind, Wishes

from devstack.judge import SECOND_NS, Call

SEEDS = range(20)


def drawn(seed: int, seconds: float = 180.0) -> list[Planned]:
    scale = Scale(seed=seed, seconds=seconds)
    return plan(scale, partial(deck, scale))


def shown(planned: list[Planned]) -> list[tuple[float, float, str, int]]:
    return [(each.at, each.lasts, each.card.kind, each.seed) for each in planned]


def test_the_same_seed_gives_the_same_faults() -> None:
    assert shown(drawn(7)) == shown(drawn(7))


def test_another_seed_gives_other_faults() -> None:
    assert shown(drawn(7)) != shown(drawn(8))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_faults_have_the_same_thing_in_hand(seed: int) -> None:
    planned = drawn(seed)

    clashes = [
        (one.card.kind, other.card.kind)
        for one, other in itertools.combinations(planned, 2)
        if one.card.needs & other.card.needs and one.at + one.lasts > other.at
    ]

    assert clashes == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_of_three_minutes_has_every_kind_of_fault(seed: int) -> None:
    scale = Scale(seed=seed)
    every = {card.kind for deal in range(3) for card in deck(scale, deal, random.Random(1))}

    assert kinds(drawn(seed)) == every


@pytest.mark.parametrize("seed", SEEDS)
def test_every_fault_is_over_when_the_time_is(seed: int) -> None:
    assert max(each.at + each.lasts for each in drawn(seed, 60.0)) <= 60.0


def test_the_same_seed_gives_the_same_requests() -> None:
    courier = Scale().couriers[1]
    first, second = (itertools.islice(Wishes(courier, 3), 200) for _ in range(2))

    assert [(each.kind, each.number, each.id, each.ttr) for each in first] == [
        (each.kind, each.number, each.id, each.ttr) for each in second
    ]


def test_every_kind_of_request_is_wished_for() -> None:
    courier = Scale().couriers[1]

    plain = {each.kind for each in itertools.islice(Wishes(courier, 3), 2000)}
    poisoned = list(itertools.islice(Wishes(courier, 3, poison=True), 2000))

    assert plain == set(Kind) - {Kind.POISON}
    assert {each.kind for each in poisoned} == set(Kind)
    numbers = [each.number for each in poisoned if each.kind is Kind.POISON]
    assert len(numbers) == len(set(numbers)) == len(POISONS)
    assert any(re.search(REFUSED_ANSWERS, each) for each in numbers)


def test_a_courier_whose_operations_are_counted_gets_no_request_without_an_id() -> None:
    courier = next(each for each in Scale().couriers if each.ids_only)

    assert all(each.id for each in itertools.islice(Wishes(courier, 3), 500))


def test_without_being_asked_the_couriers_are_the_seven() -> None:
    assert couriers() == COURIERS
    assert Scale(seed=7).command == "make chaos SEED=7 MINUTES=3 WORKERS=3"
    assert Scale.short(7, seconds=120.0).command == "make chaos SEED=7 MINUTES=2 SHORT=1"


def test_more_couriers_have_productions_limits_and_names_of_their_own() -> None:
    every = couriers(80)

    assert every[:7] == COURIERS
    assert {(each.concurrent, each.per_second) for each in every[7:]} == {(20, 2)}
    assert {each.together for each in every[7:]} == {1}
    assert len({each.slug for each in every}) == 80


def test_the_rate_is_that_of_all_couriers_together() -> None:
    every = couriers(80, 120.0)

    assert sum(each.pace for each in every) == pytest.approx(120.0)
    assert Scale(couriers=every, rate=120.0).command.endswith(" COURIERS=80 RATE=120")


def test_a_run_that_asks_for_it_has_mongodb_away_once_and_for_so_long() -> None:
    scale = Scale(seed=3, seconds=600.0, away_seconds=300.0)

    away = [
        each
        for each in plan(scale, partial(deck, scale))
        if each.card.kind == "mongodb killed for long"
    ]

    assert [each.lasts for each in away] == [300.0]
    assert scale.command.endswith(" AWAY=300")


SCALE = Scale(seconds=700.0, couriers=couriers(outage=600.0))
ABSENT = SCALE.couriers[-1]
BEGAN, ENDED = 1_000.0, 1_600.0
PROBES = tuple(
    Judged(Call(ABSENT.slug, "P", round(at * SECOND_NS), 0, 503), spoiled=True)
    for at in (1001.0, 1003.0, 1590.0)
)


def answered(first: float, count: int, every: float) -> list[Judged]:
    times = (round((first + index * every) * SECOND_NS) for index in range(count))
    return [Judged(Call(ABSENT.slug, "P", at, at + 1, 200), spoiled=False) for at in times]


def run(calls: Sequence[Judged], *dead: Any) -> Evidence:
    done = Done(AWAY, BEGAN, ENDED, frozenset({ABSENT.slug}))
    meanwhile = Meanwhile(done=(done,))
    return Evidence(SCALE, (), (), dead, {}, {}, calls, (), 1.0, meanwhile)


def judged(evidence: Evidence) -> list[tuple[str, bool]]:
    return [(each.invariant, each.is_late) for each in breaches(evidence)]


GOOD = (*PROBES, *answered(1_700.0, 200, 0.525))


def test_a_courier_of_its_own_is_away_until_the_faults_end_and_nothing_else_is_done_to_it() -> None:
    planned = with_last(plan(SCALE, partial(deck, SCALE)), outages(SCALE), SCALE)

    (away,) = [each for each in planned if ABSENT.slug in each.card.needs]
    assert (away.card.kind, away.at, away.lasts) == (AWAY, 100.0, 600.0)
    assert SCALE.present == COURIERS
    assert SCALE.command == "make chaos SEED=1 MINUTES=11.6667 WORKERS=3 OUTAGE=600"


def test_an_absence_that_cost_few_calls_and_no_request_is_good_and_told() -> None:
    shown = dict(rows(run(GOOD), []))

    assert judged(run(GOOD)) == []
    assert shown["calls of away-for-long while it was away"] == "3 in 600 s"
    assert shown["it was called again after"] == "100.0 s"
    assert shown["and then at"] == "0.95 of its rate"


def test_its_rate_is_judged_when_nothing_else_is_broken_any_more() -> None:
    slowly = (*PROBES, *answered(1_700.0, 100, 0.7), *answered(1_780.0, 100, 0.525))
    evidence = run(slowly)
    late = Done("redis killed", 1_690.0, 1_775.0, frozenset({"redis"}))
    later = replace(late, ended=1_820.0)

    runs = [
        replace(evidence, meanwhile=Meanwhile(done=(*evidence.meanwhile.done, *also)))
        for also in ((), (late,), (later,))
    ]

    assert [dict(rows(each, []))["and then at"] for each in runs] == [
        "0.73 of its rate",
        "0.94 of its rate",
        "too few calls to tell",
    ]


def test_many_calls_of_a_courier_that_is_away_fail_the_run() -> None:
    many = [
        replace(PROBES[0], call=replace(PROBES[0].call, arrived_ns=round((BEGAN + at) * SECOND_NS)))
        for at in range(MOST_CALLS + 1)
    ]

    assert judged(run((*many, *GOOD[len(PROBES) :]))) == [("I9", False)]


def test_a_request_that_dies_of_the_absence_fails_the_run() -> None:
    at = dt.datetime.fromtimestamp(0, dt.UTC)
    names = {"_id": "1", "slug": ABSENT.slug, "number": "P", "operations": [], "at": at, "body": ""}
    down, reused = ({**names, "reason": reason} for reason in ("courier_down", "id_reused"))

    assert judged(run(GOOD, reused)) == []
    assert judged(run(GOOD, down)) == [("I9", False)]


@pytest.mark.parametrize(
    "later",
    [(), answered(1_902.0, 200, 0.525), answered(1_700.0, 200, 0.7)],
    ids=["never", "late", "slowly"],
)
def test_a_courier_that_is_back_and_not_called_at_its_rate_fails_the_run(
    later: Sequence[Judged],
) -> None:
    assert judged(run((*PROBES, *later))) == [("I9", True)]
