"""One kind of fault: what it needs for itself, how long it lasts, how it is done and undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from chaos.arena import Arena

Undo = Callable[[], None]
Do = Callable[[Arena, random.Random], Undo]
"""Breaks something and returns how to mend it. What it draws, it draws from the given random."""


@dataclass(frozen=True, slots=True)
class Card:
    """`kind` is shown and counted; `needs` names what no other fault may have in hand meanwhile.

    `lasts` are the bounds of its length in seconds; (0, 0) for what is over at once.
    """

    kind: str
    needs: frozenset[str]
    lasts: tuple[float, float]
    do: Do


def nothing() -> None:
    """Mend nothing: the fault was over at once."""
