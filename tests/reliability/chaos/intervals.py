"""Spells of time: which were there, what they have in common, how much they cover. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Spell = tuple[float, float]
"""From the first to the second, in seconds."""


def merged(spells: Iterable[Spell]) -> list[Spell]:
    """The same time in spells that do not touch, in their order."""
    together: list[Spell] = []
    for begin, end in sorted(spells):
        if together and begin <= together[-1][1]:
            together[-1] = (together[-1][0], max(end, together[-1][1]))
        else:
            together.append((begin, end))
    return together


def common(lists: Sequence[Sequence[Spell]]) -> list[Spell]:
    """The time that is in all the lists; none for no list."""
    if not lists:
        return []
    together = list(lists[0])
    for spells in lists[1:]:
        both = (
            (max(one[0], other[0]), min(one[1], other[1])) for one in together for other in spells
        )
        together = [spell for spell in both if spell[0] < spell[1]]
    return together


def covered(spells: Sequence[Spell], span: Spell) -> float:
    """How many seconds of the span are in these spells, which do not touch."""
    begin, end = span
    return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in spells)
