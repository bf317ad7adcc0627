"""Check digits of couriers' numbers: a hint for detection, never a reason to refuse a number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stdnum import ean
from stdnum.iso7064 import mod_37_36

from tracking.request import Slug

_S10 = re.compile(r"[A-Z]{2}\d{9}[A-Z]{2}")
_S10_WEIGHTS = (8, 6, 4, 2, 3, 5, 9, 7)
_ELEVENS = {10: 0, 11: 5}


def is_s10(number: str) -> bool:
    """Tell whether a number has the form of the Universal Postal Union's S10."""
    return _S10.fullmatch(number) is not None


def s10_checks(number: str) -> bool:
    """Check the ninth digit of a number in the form of S10."""
    weighed = zip(map(int, number[2:10]), _S10_WEIGHTS, strict=True)
    rest = 11 - sum(digit * weight for digit, weight in weighed) % 11
    return _ELEVENS.get(rest, rest) == int(number[10])


def _gs1_checks(number: str) -> bool:
    return str(ean.calc_check_digit(number[:-1])) == number[-1]


_GS1 = {
    Slug("bring"): re.compile(r"[37]\d{17}"),
    Slug("canada-post"): re.compile(r"\d{16}"),
    Slug("postnord"): re.compile(r"(?:00)?[37]\d{17}"),
}
"""Numbers whose last digit is the modulo 10 check digit of GS1."""

_LETTERED = {Slug("dpd-uk"): re.compile(r"\d{14}[0-9A-Z]")}
"""Numbers whose last character is that of ISO 7064, modulo 37 and 36."""


def checks(slug: Slug, number: str, known: Mapping[Slug, bool]) -> bool | None:
    """Check a courier's number; None where no check is known for one of this form.

    `known` holds what somebody else found out for this number.
    """
    if is_s10(number):
        return s10_checks(number)
    if slug in _GS1 and _GS1[slug].fullmatch(number):
        return _gs1_checks(number)
    if slug in _LETTERED and _LETTERED[slug].fullmatch(number):
        return bool(mod_37_36.is_valid(number))
    return known.get(slug)
