"""Numbers as couriers write them, checked before a call is spent on one."""

from __future__ import annotations

from tracking.errors import InvalidNumber


def alphanumeric(number: str) -> str:
    """Return `number`, which this courier writes with letters and digits only.

    Raises InvalidNumber: anything else cannot be one of its numbers, and needs no call to know.
    """
    if not (number.isascii() and number.isalnum()):
        raise InvalidNumber(f"{number[:80]!r} holds more than letters and digits")
    return number
