"""What an answer says of a parcel besides its way: weight, service, reference, proof, sub-parcels.

Nothing here makes an answer unreadable: what has another form than expected counts as not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from couriers.reading.answer import text

_POUND, _OUNCE = 453.59237, 28.349523125
_GRAMS = {
    **dict.fromkeys(("g", "gr", "gram", "grams", "gramm"), 1.0),
    **dict.fromkeys(("kg", "kgs", "kilogram", "kilograms", "kilogramm", "metric", "si"), 1000.0),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds", "imperial", "su"), _POUND),
    **dict.fromkeys(("oz", "ozs", "ounce", "ounces"), _OUNCE),
}
"""Grams by the names that couriers give to units of weight."""
_AMOUNT = re.compile(r"\d{1,7}(?:\.\d{1,9})?", re.ASCII)
_ADDRESS = re.compile(r"https?://[\x21-\x7e]{1,2000}", re.ASCII | re.IGNORECASE)


def inside(value: Any, *path: str) -> str | None:
    """Follow the names of `path` into decoded JSON and read what is there as text.

    Of a list the first counts. None for nothing, and where there is no such member.
    """
    for name in (*path, None):
        if isinstance(value, list):
            value = value[0] if value else None
        if name is not None:
            value = value.get(name) if isinstance(value, dict) else None
    told = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return text(value) if told else None


def grams(amount: str | float | None, unit: str | None = "kg") -> int | None:
    """Read a weight; None for none, for nothing at all (many write 0), or an unknown unit."""
    if amount is None:
        return None
    told, factor = _AMOUNT.fullmatch(text(amount) or ""), _GRAMS.get((unit or "").strip().lower())
    return round(float(told[0]) * factor) or None if told and factor else None


def address(value: str | None) -> str | None:
    """Take a web address as it is; None for what is none."""
    plain = text(value)
    return plain if plain and _ADDRESS.fullmatch(plain) else None


def others(numbers: Iterable[str | int | None], asked: str) -> tuple[str, ...]:
    """List the parcels of a consignment besides the number that was asked for, each once."""
    named = dict.fromkeys(name for number in numbers if (name := text(number)))
    return tuple(name for name in named if name.upper() != asked)
