"""Couriers that hang, refuse, break off, or answer nonsense."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

from chaos.arena import Arena
from chaos.faults.card import Card, Do, Undo
from chaos.faults.workers import HANGING
from chaos.scale import CALL_TIMEOUT, DESTINATIONS, DOWN, JITTER, LATENCY, Scale

WAYS: tuple[tuple[str, Mapping[str, object], tuple[float, float]], ...] = (
    ("hangs", {"fault": "hang", "share": 0.4}, (1.0, 4.0)),
    ("drips", {"fault": "drip", "share": 0.4}, (1.0, 4.0)),
    ("is slow", {"latency": 1.0, "jitter": 0.8}, (2.0, 5.0)),
    ("answers 500", {"fault": "status", "status": 500, "share": 0.6}, (1.0, 4.0)),
    ("answers 429", {"fault": "status", "status": 429, "retry_after": "1"}, (0.5, 1.5)),
    ("resets", {"fault": "reset", "share": 0.6}, (1.0, 4.0)),
    ("breaks off", {"fault": "cut", "share": 0.6}, (1.0, 4.0)),
    ("sends a web page", {"fault": "garbage", "share": 0.4}, (1.0, 3.0)),
    ("sends half an answer", {"fault": "truncated", "share": 0.4}, (1.0, 3.0)),
    ("redirects", {"fault": "redirect", "share": 0.4}, (1.0, 3.0)),
    ("sends without end", {"fault": "huge", "share": 0.1}, (1.0, 2.0)),
    ("sends a gzip bomb", {"fault": "gzip_bomb", "share": 0.1}, (1.0, 2.0)),
)
OF_SEVERAL: tuple[tuple[str, Mapping[str, object], tuple[float, float]], ...] = (
    ("refuses calls for one number", {"fault": "status", "status": 400, "ending": "3"}, (2.0, 5.0)),
    ("breaks off at one number", {"fault": "truncated", "ending": "4"}, (2.0, 5.0)),
    ("makes no sense of one number", {"fault": "senseless", "ending": "6"}, (2.0, 5.0)),
    ("leaves numbers out", {"leaves_out": 0.2, "reorders": True}, (2.0, 5.0)),
)
"""What couriers do that answer for several numbers in one call; one number is each tenth."""

LONG = frozenset({"hangs", "drips", "is slow"})
AWAY = "courier away for long"
DESTINATIONS_DOWN = "destinations down for a minute"
NEVER_ENDING = frozenset({"hang", "drip"})


def cards(scale: Scale, draw: random.Random) -> Iterator[Card]:
    """Every way, each for one courier."""
    # Where places are fewer than starts, calls that take long reach the limit of calls at once.
    tight = [courier for courier in scale.present if courier.concurrent < courier.per_second]
    for kind, behaviour, lasts in WAYS:
        slug = draw.choice(tight if kind in LONG else scale.present).slug
        needs = {slug, HANGING} if behaviour.get("fault") in NEVER_ENDING else {slug}
        yield Card(f"courier {kind}", frozenset(needs), lasts, _behave(slug, behaviour))
    several = [courier.slug for courier in scale.present if courier.together > 1]
    for kind, behaviour, lasts in OF_SEVERAL if several else ():
        slug = draw.choice(several)
        yield Card(f"courier {kind}", frozenset({slug}), lasts, _behave(slug, behaviour))


def outages(scale: Scale) -> Iterator[Card]:
    """A courier that answers nobody, for as long as the run asks for."""
    for courier in scale.couriers:
        if lasts := courier.away_seconds:
            unavailable = _behave(courier.slug, {"fault": "status", "status": 503})
            yield Card(AWAY, frozenset({courier.slug}), (lasts, lasts), unavailable)


def downs(scale: Scale) -> Iterator[Card]:
    """Destinations that are away for a minute."""
    if scale.hooks:
        lasts = min(60.0, scale.seconds / 3)
        names = frozenset(each.name for each in DESTINATIONS if each.name.startswith(DOWN))
        yield Card(DESTINATIONS_DOWN, names, (lasts, lasts), _reset(names))


def _reset(names: frozenset[str]) -> Do:
    def do(arena: Arena, _: random.Random) -> Undo:
        for name in names:
            arena.site.behave(name, fault="reset")

        def undo() -> None:
            for name in names:
                arena.site.behave(name)

        return undo

    return do


def _behave(slug: str, behaviour: Mapping[str, object]) -> Do:
    def do(arena: Arena, draw: random.Random) -> Undo:
        usual = {"latency": LATENCY, "jitter": JITTER, "seed": draw.randrange(2**31)}
        arena.site.behave(slug, **{**usual, **behaviour})

        def undo() -> None:
            arena.site.behave(slug, **usual)
            if behaviour.get("fault") in NEVER_ENDING:
                time.sleep(CALL_TIMEOUT)  # until the last call that hangs was given up

        return undo

    return do
