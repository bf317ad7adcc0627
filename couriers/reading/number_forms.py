"""Forms of couriers' numbers, for detection."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_uppercase
from string import digits as DIGITS  # noqa: N812 - a constant, which `string` writes small
from typing import NamedTuple

from couriers.reading.check_digits import s10_checks


class NumberForm(NamedTuple):
    """One form of a courier's numbers.

    `check` checks the digit of a number that has the form, None where no check is known. `loose`
    is a form that numbers of many other couriers have too.
    """

    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    loose: bool = False

    def own(self, number: str) -> int:
        """Count the characters of a number that fits which the form allows no other one for.

        The more there are, the less a number of somebody else has this form by chance.
        """
        return sum(not self._takes_another(number, place) for place in range(len(number)))

    def _takes_another(self, number: str, place: int) -> bool:
        was = number[place]
        kind = DIGITS if was in DIGITS else ascii_uppercase
        changed = (f"{number[:place]}{each}{number[place + 1 :]}" for each in kind if each != was)
        return any(self.pattern.fullmatch(each) for each in changed)

    @property
    def is_s10(self) -> bool:
        """Whether it is the form in which posts number what crosses borders."""
        return self.check is s10_checks


def form(
    pattern: str, check: Callable[[str], bool] | None = None, *, loose: bool = False
) -> NumberForm:
    """Make a form out of the pattern of the whole number: upper case, no blanks or hyphens."""
    return NumberForm(re.compile(pattern, re.ASCII), check, loose)


def s10(countries: str) -> NumberForm:
    """Make the form of a post's numbers by the standard S10: `countries` is "US" or "SE|DK"."""
    return form(rf"[A-Z]{{2}}\d{{9}}(?:{countries})", s10_checks)


ANY_S10 = s10("[A-Z]{2}")
