"""A courier's absence in a fault run: drawn as the last fault, and judged by what it cost."""

from __future__ import annotations

import datetime as dt
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
from chaos.plan import plan, with_last
from chaos.report import rows
from chaos.scale import COURIERS, Scale, couriers
from chaos.verdict import breaches

from devstack.judge import SECOND_NS, Call

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
