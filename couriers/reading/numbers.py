"""Forms and check digits of couriers' numbers: a hint for detection, never a reason to refuse one.

=================== ========================================================================
function            used by
=================== ========================================================================
gs1                 keys by the GS1 General Specifications (SSCC, IMpb): weights 3 and 1
                    from the right, modulo 10
luhn                Purolator, Old Dominion: ISO/IEC 7812-1, every other digit doubled
s10_checks          posts, by the Universal Postal Union's standard S10
mod_37_36           DPD: ISO 7064, MOD 37,36, with letters
mod_7               DHL Express air waybills
weights_1_and_2     UPS: weights 1 and 2 from the left, letters count as digits
weights_1_3_7       FedEx Express: weights 1, 3, 7 from the right, modulo 11, then 10
weights_4_and_9     DHL Paket: weights 4 and 9 from the left, modulo 10
=================== ========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import cycle
from string import ascii_uppercase
from string import digits as DIGITS  # noqa: N812 - a constant, which `string` writes small
from typing import NamedTuple

from tracking.errors import InvalidNumber

_S10_WEIGHTS = (8, 6, 4, 2, 3, 5, 9, 7)
_ELEVENS = {10: 0, 11: 5}


def s10_checks(number: str) -> bool:
    """Check the ninth digit of a number in the form of S10."""
    weighed = zip(map(int, number[2:10]), _S10_WEIGHTS, strict=True)
    rest = 11 - sum(digit * weight for digit, weight in weighed) % 11
    return _ELEVENS.get(rest, rest) == int(number[10])


def gs1(number: str) -> bool:
    """Whether the last digit is the GS1 check digit of those before it."""
    weighed = zip(map(int, reversed(number)), cycle((1, 3)), strict=False)
    return sum(digit * weight for digit, weight in weighed) % 10 == 0


def luhn(number: str) -> bool:
    """Whether the last digit is the Luhn check digit of those before it."""
    weighed = zip(map(int, reversed(number)), cycle((1, 2)), strict=False)
    return sum(sum(divmod(digit * weight, 10)) for digit, weight in weighed) % 10 == 0


def mod_37_36(number: str) -> bool:
    """Check the last character, a digit or a letter."""
    check = 36
    for each in number[:-1]:
        check = (check + int(each, 36)) % 36 or 36
        check = check * 2 % 37
    return (check + int(number[-1], 36)) % 36 == 1


def mod_7(number: str) -> bool:
    """Check the last of a number's digits."""
    return int(number[:-1]) % 7 == int(number[-1])


def weights_1_and_2(number: str) -> bool:
    """Check the last character; a letter counts as the digit that UPS gives it (A is 2)."""
    digits = [int(each) if each.isdigit() else (ord(each) - 3) % 10 for each in number[:-1]]
    weighed = sum(digit * weight for digit, weight in zip(digits, cycle((1, 2)), strict=False))
    return str(-weighed % 10) == number[-1]


def weights_1_3_7(number: str) -> bool:
    """Check the last of a number's digits."""
    digits = map(int, reversed(number[:-1]))
    weighed = sum(digit * weight for digit, weight in zip(digits, cycle((1, 3, 7)), strict=False))
    return weighed % 11 % 10 == int(number[-1])


def weights_4_and_9(number: str) -> bool:
    """Check the last of a number's digits."""
    weighed = sum(
        int(digit) * weight for digit, weight in zip(number[:-1], cycle((4, 9)), strict=False)
    )
    return str(-weighed % 10) == number[-1]


class NumberForm(NamedTuple):
    """One form of a courier's numbers.

    `check` checks the digit of a number that has the form, None where no check is known. `loose`
    is a form that numbers of many other couriers have too.
    """

    text: str
    check: Callable[[str], bool] | None = None
    loose: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the whole number; `detect` alone wants it, so it is compiled there."""
        return re.compile(self.text, re.ASCII)

    def own(self, number: str) -> int:
        """Count the characters of a number that fits which the form allows no other one for.

        The more there are, the less a number of somebody else has this form by chance.
        """
        return sum(not self._takes_another(number, place) for place in range(len(number)))

    def _takes_another(self, number: str, place: int) -> bool:
        was = number[place]
        kind = DIGITS if was in DIGITS else ascii_uppercase
        changed = (f"{number[:place]}{each}{number[place + 1 :]}" for each in kind if each != was)
        return any(map(self.pattern.fullmatch, changed))

    @property
    def is_s10(self) -> bool:
        """Whether it is the form in which posts number what crosses borders."""
        return self.check is s10_checks


def form(
    pattern: str, check: Callable[[str], bool] | None = None, *, loose: bool = False
) -> NumberForm:
    """Make a form out of the pattern of the whole number: upper case, no blanks or hyphens."""
    return NumberForm(pattern, check, loose)


def s10(countries: str) -> NumberForm:
    """Make the form of a post's numbers by the standard S10: `countries` is "US" or "SE|DK"."""
    return form(rf"[A-Z]{{2}}\d{{9}}(?:{countries})", s10_checks)


ANY_S10 = s10("[A-Z]{2}")


def alphanumeric(number: str) -> str:
    """Return `number`, which this courier writes with letters and digits only.

    Raises InvalidNumber: anything else cannot be one of its numbers, and needs no call to know.
    """
    if not (number.isascii() and number.isalnum()):
        raise InvalidNumber(f"{number[:80]!r} holds more than letters and digits")
    return number
