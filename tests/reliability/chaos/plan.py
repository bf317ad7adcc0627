"""Which fault begins when, and how long it lasts: drawn from the seed before the run. Pure.

Cards are dealt from shuffled decks, so that every kind comes before any kind comes again. A fault
that needs what another one has in hand begins when that is over.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from chaos.faults.card import Card
from chaos.scale import Scale

AFTERWARDS = 1.0
"""Seconds for which what was broken is left alone when it works again."""

EARLY = 0.05
"""Of a run."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come. `at` and `lasts` are seconds since the beginning; `seed` for its draws."""

    at: float
    lasts: float
    card: Card
    seed: int


Deal = Callable[[int, random.Random], Sequence[Card]]
"""Gives the cards of the deal with this number; what each of them hits is drawn."""


def plan(scale: Scale, deal: Deal) -> list[Planned]:
    """Draw the faults of a run, by the instant at which they begin."""
    draw = random.Random(f"plan:{scale.seed}")
    planned: list[Planned] = []
    busy: dict[str, float] = {}
    at, seconds = 0.0, scale.seconds
    for card in _dealt(deal, draw):
        at += draw.uniform(*scale.gap)
        begins = max([at, *(busy.get(need, 0.0) for need in card.needs)])
        lasts = draw.uniform(*card.lasts)
        number = draw.randrange(2**32)
        if at >= seconds:
            break
        if begins + lasts > seconds:
            continue
        planned.append(Planned(begins, lasts, card, number))
        for need in card.needs:
            busy[need] = begins + lasts + AFTERWARDS
    return _sorted(planned)


def with_marked(planned: Sequence[Planned], cards: Iterable[Card], scale: Scale) -> list[Planned]:
    """Add cards that were asked for by name, spread over the run in their order."""
    marked = list(cards)
    step = scale.seconds / (len(marked) + 1)
    return _sorted(
        [
            *planned,
            *(
                Planned(step * number, card.lasts[0], card, scale.seed)
                for number, card in enumerate(marked, 1)
            ),
        ]
    )


def with_last(planned: Sequence[Planned], cards: Iterable[Card], scale: Scale) -> list[Planned]:
    """Add cards that end as the faults do, so that nothing disturbs what comes after them."""
    last = [
        Planned(max(0.0, scale.seconds - card.lasts[0]), card.lasts[0], card, scale.seed)
        for card in cards
    ]
    return _sorted([*planned, *last])


def with_early(planned: Sequence[Planned], cards: Iterable[Card], scale: Scale) -> list[Planned]:
    """Add cards that begin when all works already, so that there is time for what follows them."""
    at = EARLY * scale.seconds
    return _sorted([*planned, *(Planned(at, card.lasts[0], card, scale.seed) for card in cards)])


def _sorted(planned: Iterable[Planned]) -> list[Planned]:
    return sorted(planned, key=lambda each: each.at)


def _dealt(deal: Deal, draw: random.Random) -> Iterator[Card]:
    for number in count():
        cards = deal(number, draw)
        yield from draw.sample(cards, len(cards))


def kinds(planned: Collection[Planned]) -> set[str]:
    """The kinds of faults that a plan holds."""
    return {each.card.kind for each in planned}
