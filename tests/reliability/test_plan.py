"""The plan of a fault run: drawn from its seed alone, every kind in its turn, none on top."""

from __future__ import annotations

import itertools
import random
import re
from functools import partial

import pytest
from chaos.faults import deck
from chaos.plan import Planned, kinds, plan
from chaos.scale import COURIERS, POISONS, REFUSED_ANSWERS, Scale, couriers
from chaos.wishes import Kind, Wishes

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


def test_without_being_asked_the_couriers_are_the_five() -> None:
    assert couriers() == COURIERS
    assert Scale(seed=7).command == "make chaos SEED=7 MINUTES=3 WORKERS=3"
    assert Scale.short(7, seconds=120.0).command == "make chaos SEED=7 MINUTES=2 SHORT=1"


def test_more_couriers_have_productions_limits_and_names_of_their_own() -> None:
    every = couriers(80)

    assert every[:5] == COURIERS
    assert {(each.concurrent, each.per_second) for each in every[5:]} == {(20, 2)}
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
