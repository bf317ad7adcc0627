"""The judge of webhooks in a fault run: what is lost, doubled, or too much never passes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from chaos.deliveries import SETTLES_SECONDS, healthy_rates, mean_rate, rows, undisturbed
from chaos.evidence import Evidence, Judged, Meanwhile
from chaos.hooks import Delivered
from chaos.nemesis import Done
from chaos.scale import DESTINATIONS, HEARD, Scale, followed
from chaos.verdict import breaches

from devstack.judge import SECOND_NS, Call, Noted

SCALE = Scale(couriers=followed(50, 300.0), seconds=300.0, hooks=50)
PARCEL = f"{HEARD}:PARCEL2"
NAMES = [each.name for each in DESTINATIONS]
ENDS = {"hangs": "held", "gone": "held"}


def delivery(name: str, state: str = "", why: str = "") -> Any:
    made_at = dt.datetime.fromtimestamp(0, dt.UTC)
    found = state or ENDS.get(name, "delivered")
    known = {"_id": f"D-{name}", "service": name, "parcel": PARCEL, "made_at": made_at}
    return known | {"state": found, "why": why}


def sent(name: str, at: float = 1.0, ends: float = 1.1, status: int | None = 200) -> Judged:
    times = (round(each * SECOND_NS) for each in (at, ends))
    return Judged(Call(name, f"D-{name}", *times, status), spoiled=False)


NOTED = {f"D-{name}": Noted(1, 1, 5 * SECOND_NS) for name in NAMES}
GOOD = Delivered(
    [delivery(name) for name in NAMES],
    NOTED,
    {name: name for name in NAMES},
    frozenset({PARCEL}),
    changed=0.0,
    over=2.0,
)
NOTHING_ELSE = Meanwhile()
CALLS = tuple(sent(name) for name in NAMES)


def run(
    delivered: Delivered = GOOD,
    calls: Sequence[Judged] = CALLS,
    meanwhile: Meanwhile = NOTHING_ELSE,
) -> Evidence:
    made = Evidence(SCALE, (), (), (), {}, {}, calls, (), 1.0, meanwhile)
    return replace(made, delivered=delivered)


def judged(evidence: Evidence) -> list[str]:
    return [each.invariant for each in breaches(evidence)]


def having(name: str, *calls: Judged) -> tuple[Judged, ...]:
    return (*(each for each in CALLS if each.call.slug != name), *calls)


def test_all_that_was_delivered_held_or_dead_with_its_reason_is_good() -> None:
    dead = [delivery(name, *(["dead", "refused"] if name == "refuses1" else [])) for name in NAMES]

    assert judged(run()) == judged(run(replace(GOOD, deliveries=dead))) == []
    assert dict(rows(run()))["deliveries"] == "50: delivered 48, held 2"


@pytest.mark.parametrize(
    "wrong",
    [
        [delivery(name) for name in NAMES if name != "slow1"],
        [*GOOD.deliveries[1:], delivery(NAMES[0], "open")],
        [delivery(name, *(["dead"] if name == "fails1" else [])) for name in NAMES],
        [delivery(name, *(["dead", "timeout"] if name == "well1" else [])) for name in NAMES],
    ],
    ids=["missing", "open", "dead without a reason", "dead at one that takes all"],
)
def test_what_a_destination_should_have_and_has_not_is_lost(wrong: list[Any]) -> None:
    assert judged(run(replace(GOOD, deliveries=wrong))) == ["I1"]


def test_what_never_arrived_is_not_delivered() -> None:
    assert judged(run(calls=having("well1"))) == ["I1"]
    assert judged(run(calls=having("well1", sent("well1", status=500)))) == ["I1"]


def test_a_change_of_which_nobody_heard_is_lost() -> None:
    assert judged(run(replace(GOOD, untold=1))) == ["I1"]


TWICE = having("well1", sent("well1"), sent("well1", 2.05, 2.1))


@pytest.mark.parametrize(
    ("meanwhile", "told"),
    [
        (NOTHING_ELSE, ["I8"]),
        (Meanwhile(deaths=(5.0,)), ["I8"]),
        (Meanwhile(deaths=(1.05,)), []),
        (Meanwhile(done=(Done("mongodb killed", 1.05, 1.2, frozenset({"mongodb"})),)), []),
    ],
    ids=["nothing was killed", "later", "its process", "MongoDB"],
)
def test_only_what_was_in_flight_at_a_kill_is_sent_again(
    meanwhile: Meanwhile, told: list[str]
) -> None:
    assert judged(run(calls=TWICE, meanwhile=meanwhile)) == told


def test_attempts_at_once_and_behind_a_stored_success_are_seen() -> None:
    death = Meanwhile(deaths=(1.05,))
    at_once = having("well1", sent("well1", 1.0, 1.5), sent("well1", 1.2, 1.6))
    behind = having("well1", sent("well1"), sent("well1", 6.0, 6.1))

    assert "I8" in judged(run(calls=at_once, meanwhile=death))
    assert judged(run(calls=behind, meanwhile=death)) == ["I8"]


def test_more_attempts_in_a_second_than_a_service_allows_are_seen() -> None:
    other = Judged(Call("well1", "D-other", SECOND_NS, SECOND_NS + 1, 200), spoiled=False)
    noted = NOTED | {"D-other": Noted(1, 1, 5 * SECOND_NS)}

    assert judged(run(replace(GOOD, noted=noted), (*CALLS, other))) == ["I3"]


def test_the_rate_is_judged_while_nothing_is_broken_and_more_waits() -> None:
    killed = Done("redis killed", 10.0, 20.0, frozenset({"redis"}))
    again = [sent("well1", at, at) for at in (*range(10), *range(40, 60, 2))]
    evidence = run(
        replace(GOOD, over=60.0), having("well1", *again), Meanwhile(done=(killed,), deaths=(0.0,))
    )

    assert undisturbed(evidence) == [(0.0, 10.0), (20.0 + SETTLES_SECONDS, 60.0)]
    assert healthy_rates(evidence) == [(10.0, 1.0)]
    assert mean_rate([(10.0, 1.0), (30.0, 0.5)]) == 0.625
