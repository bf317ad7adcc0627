"""A courier that is away for hours costs few calls and no request; one bad number costs itself.

Stores away for minutes, or with lost replies: nothing is charged, nothing stranded.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from portion import daily
from simulated.batch import live_in, live_through
from simulated.clockwork import Clockwork, Courier
from simulated.plan import Plan, SlugPlan, plan_for
from simulated.scripting import Scripting
from simulated.world import World

from service.worker.flow.tracking_work import RetryRules
from service.worker.tubes.envelope import DRAINS_TUBE
from tracking.errors import AuthFailed, CourierDown, CourierError, RateLimited, UnreadableAnswer

HOUR = 3_600.0
DAY = 24 * HOUR
NUMBERS = [f"N{n:03}" for n in range(240)]

Failing = Callable[[float, str], CourierError | None]


def out(begins: float, ends: float, error: CourierError) -> Failing:
    return lambda now, _: error if begins <= now < ends else None


async def lived(fails: Failing, until: float, *numbers: str, sweeps: float = 60.0) -> Clockwork:
    """Its numbers are put at the beginning. Fewer sweeps than in fact cost us less time."""
    clockwork = Clockwork(Courier(fails), sweeps)
    await clockwork.run_until(0.0)
    await clockwork.put(*numbers)
    await clockwork.run_until(until)
    return clockwork


def calls_between(clockwork: Clockwork, begins: float, ends: float) -> int:
    return sum(begins <= at < ends for at, _ in clockwork.courier.calls)


@pytest.mark.parametrize("seconds", [150.0, pytest.param(600.0, marks=pytest.mark.prove), 6 * HOUR])
async def test_an_outage_loses_nothing_and_6_hours_of_it_cost_200_calls_at_most(
    seconds: float,
) -> None:
    ends = 20.0 + seconds
    clockwork = await lived(
        out(20.0, ends, CourierDown("503")), ends + 300.0 + len(NUMBERS), *NUMBERS
    )

    assert clockwork.dead == {}
    assert clockwork.answered.keys() == set(NUMBERS)
    assert calls_between(clockwork, 20.0, ends) <= 200


async def test_a_courier_back_within_an_hour_is_noticed_within_30_s() -> None:
    ends = 20.0 + 150.0
    clockwork = await lived(out(20.0, ends, CourierDown("503")), ends + 35.0, *NUMBERS)

    back = min(at for at in clockwork.answered.values() if at >= ends)
    assert back - ends <= 31.0


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RateLimited("429", retry_after=2.0), id="429 with a time"),
        pytest.param(RateLimited("429"), id="429", marks=pytest.mark.prove),
        pytest.param(AuthFailed("403"), id="403"),
        # These die after two days, of which each half minute is lived through.
        pytest.param(CourierDown("500"), id="500", marks=pytest.mark.prove),
        pytest.param(UnreadableAnswer("a web page"), id="unreadable", marks=pytest.mark.prove),
    ],
)
async def test_one_number_that_is_always_refused_stands_for_nobody(error: CourierError) -> None:
    def fails(_: float, number: str) -> CourierError | None:
        return error if number == "BAD" else None

    clockwork = Clockwork(Courier(fails), 600.0, RetryRules(give_up_days=2))
    await clockwork.run_until(0.0)
    await clockwork.put("BAD", *NUMBERS)
    await clockwork.run_until(310.0)

    assert clockwork.answered.keys() == set(NUMBERS)
    await clockwork.run_until(2.2 * DAY)
    assert clockwork.dead.keys() == {"BAD"}


async def test_after_an_outage_calls_go_on_at_full_rate_with_the_first_answer() -> None:
    ends = 2 * HOUR
    clockwork = await lived(out(20.0, ends, CourierDown("503")), ends + 600.0, *NUMBERS)

    back = min(at for at in clockwork.answered.values() if at >= ends)
    assert back - ends <= 301.0
    # Without reports of its sends a lane is free after two seconds.
    assert calls_between(clockwork, back, back + 2.0) >= 2
    assert calls_between(clockwork, back, back + 60.0) >= 50


async def test_an_outage_of_few_numbers_is_tried_by_each_in_turn() -> None:
    clockwork = await lived(out(0.0, HOUR, CourierDown("503")), 2 * HOUR, "N001", "N002", "N003")

    tried = [number for _, number in clockwork.courier.calls]
    assert clockwork.answered.keys() == {"N001", "N002", "N003"}
    assert len(tried) <= 130
    assert all(one != other for one, other in itertools.pairwise(tried[5:]))


async def test_one_number_that_always_fails_dies_and_holds_nobody_up() -> None:
    def fails(_: float, number: str) -> CourierError | None:
        return CourierDown("500") if number == "BAD" else None

    clockwork = Clockwork(Courier(fails))
    await clockwork.run_until(0.0)
    await clockwork.put("BAD")
    waits = []
    for minute in range(240):
        number = f"M{minute:03}"
        await clockwork.put(number)
        await clockwork.run_until(60.0 * (minute + 1))
        waits.append(clockwork.answered[number] - 60.0 * minute)

    assert max(waits) <= 5.0
    assert clockwork.dead["BAD"][1] == "courier_down"
    # Those of the first minute are charged to nobody: nobody else is asked for then.
    assert sum(number == "BAD" for _, number in clockwork.courier.calls) <= 15


@pytest.mark.parametrize("days", daily([1], 1, 7))
async def test_a_number_that_fails_alone_at_its_courier_dies_after_its_days(days: int) -> None:
    clockwork = Clockwork(
        Courier(lambda *_: CourierDown("500")), 600.0, RetryRules(give_up_days=days)
    )
    await clockwork.run_until(0.0)
    await clockwork.put("ALONE")
    await clockwork.run_until((days + 0.2) * DAY)

    died, why = clockwork.dead["ALONE"]
    assert (why, days * DAY <= died <= days * DAY + HOUR) == ("courier_down", True)
    # Its own backoff is an hour at most, and half of that on average.
    assert len(clockwork.courier.calls) <= 64 * days


async def test_answers_in_a_new_form_kill_nobody_before_they_can_be_read() -> None:
    fixed = 1.5 * DAY
    clockwork = await lived(
        out(20.0, fixed, UnreadableAnswer("a web page")), fixed + 2 * HOUR, *NUMBERS
    )

    assert clockwork.dead == {}
    assert clockwork.answered.keys() == set(NUMBERS)
    assert calls_between(clockwork, 20.0, fixed) <= 100


BACK_HOURS = 30.0
"""A day, after which the first die, and some hours more."""


@pytest.mark.parametrize(
    ("error", "most"),
    [(AuthFailed("401"), 40), (RateLimited("429", retry_after=HOUR), 30)],
    ids=["401", "429"],
)
async def test_of_a_backlog_that_is_refused_only_those_die_who_were_asked(
    error: CourierError, most: int
) -> None:
    clockwork = Clockwork(Courier(out(0.0, BACK_HOURS * HOUR, error)), sweep_seconds=600.0)
    await clockwork.run_until(0.0)
    await clockwork.put(*NUMBERS)
    await clockwork.run_until(23.9 * HOUR)
    assert clockwork.dead == {}

    await clockwork.run_until(26 * HOUR)
    assert len(clockwork.courier.calls) <= most
    assert clockwork.dead

    await clockwork.run_until((BACK_HOURS + 3) * HOUR)
    refused = {number for at, number in clockwork.courier.calls if at < BACK_HOURS * HOUR}
    assert clockwork.dead.keys() <= refused
    assert clockwork.answered.keys() == set(NUMBERS) - clockwork.dead.keys()


AWAY, BACK = 5.0, 305.0
FOUND_OUT = AWAY + 3.0
"""Calls that ran when MongoDB went have found out, and their slots are free."""

SLUGS = tuple(SlugPlan(slug, 20, 1, 1_000_000) for slug in ("usps", "ups", "dhl"))
CALM = replace(
    plan_for(1),
    slugs=SLUGS,
    workers=2,
    concurrency=20,
    requests=120,
    producing=20.0,
    faulty=BACK + 5.0,
    call_timeout=30.0,
    lease=60.0,
    poison=0,
    rates={},
    services=(),
)


@dataclass(slots=True)
class Seen:
    """`drains`: jobs put while MongoDB was away, by their body. `calls` so far, by moment."""

    drains: Counter[bytes] = field(default_factory=Counter)
    calls: dict[float, int] = field(default_factory=dict)


class Absence(World):
    """A world whose MongoDB is away for five minutes."""

    def __init__(self, plan: Plan, seen: Seen) -> None:
        super().__init__(plan, Scripting())
        self._seen = seen
        self._store, self.server.put = self.server.put, self._put  # type: ignore[method-assign]
        self.loop.outside(AWAY, lambda: self._cut(self.couriers.calls))
        for moment in (FOUND_OUT, BACK):
            self.loop.outside(moment, self._count, moment)
        self.loop.outside(BACK, self.nemesis.mongodb_is_back)

    def _cut(self, calls: int) -> None:
        """MongoDB goes when the next call has begun."""
        self.nemesis.mongodb.away = self.couriers.calls > calls
        if not self.nemesis.mongodb.away:
            self.loop.outside(0.01, self._cut, calls)

    def _count(self, moment: float) -> None:
        self._seen.calls[moment] = self.couriers.calls

    def _put(self, tube: str, body: bytes, priority: int, ttr: float) -> int:
        if tube == DRAINS_TUBE and self.nemesis.mongodb.away:
            self._seen.drains[body] += 1
        return self._store(tube, body, priority, ttr)


def test_while_mongodb_is_away_for_five_minutes_nothing_begins_and_no_job_goes_round() -> None:
    seen = Seen()

    outcome = live_in(lambda: Absence(CALM, seen))

    assert outcome.breaches == ()
    assert seen.calls[FOUND_OUT] == seen.calls[BACK] > 0, "no call begins"
    assert set(seen.drains.values()) <= {1}, "at most one drain job per line"
    assert outcome.repairs["drain job put again"] == 0, "nobody had to be looked for"
    assert (outcome.repairs["repeated"], outcome.repairs["lost"]) == (0, 0), "nothing is charged"
    assert outcome.repairs["handed back"] > 0, "some ran when it went"


def test_where_only_replies_of_redis_are_lost_no_call_is_stranded() -> None:
    """Also where every repetition of the client is lost, and the flow has to try again."""
    plan = replace(CALM, seed=4, requests=60, faulty=60.0, rates={"redis: answer lost": 0.15})

    outcome = live_through(plan, Scripting())

    assert outcome.breaches == ()
    assert outcome.faults["redis: answer lost"] > 20
    assert outcome.repairs["lost"] == 0
