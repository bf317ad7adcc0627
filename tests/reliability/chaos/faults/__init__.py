"""What can be broken: one module for each thing that breaks, and the deck of all cards."""

from __future__ import annotations

import random
from collections.abc import Sequence

from chaos.faults import by_hand, couriers, disk, failovers, links, refusals, servers, workers
from chaos.faults.card import Card
from chaos.faults.workers import POINT
from chaos.scale import Scale

KILLS = frozenset(
    f"{what} killed" for what in ("process", "worker", "beanstalkd", "redis", "mongodb")
)
"""What befalls a run that delivers webhooks, with fail points of theirs."""


def deck(scale: Scale, deal: int, draw: random.Random) -> Sequence[Card]:
    """The cards of one deal; which worker or courier each of them hits is drawn."""
    if scale.hooks:
        every = (*workers.cards(scale, deal, draw), *servers.cards(scale, draw))
        return [card for card in every if card.kind in KILLS or card.kind.startswith(POINT)]
    return [
        *workers.cards(scale, deal, draw),
        *servers.cards(scale, draw),
        *(servers.long_absence(scale) if deal == 0 else ()),
        *refusals.cards(scale),
        *(failovers.cards() if scale.sentinels else ()),
        *links.cards(scale, draw),
        *couriers.cards(scale, draw),
        *by_hand.cards(scale, draw),
        *(disk.cards() if scale.disk_fills else ()),
    ]
