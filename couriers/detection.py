"""Detection ranks the couriers that may have a number, because most forms belong to several.

A check digit that fails lowers the rank and excludes nobody. A number of the form S10 names the
post of its origin; the post that delivers it knows it too, so all posts stand below that one.

How much of a number is the courier's own decides besides. Of loose forms the one that leaves fewer
characters open stands first. One number in ten passes any check digit by chance: a check that
passes in a form of which nothing is fixed tells less than one that fails behind a long beginning
which is a courier's own, and is a slip of the pen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from couriers.reading import numbers
from couriers.registry import Registry
from tracking.errors import MalformedJob
from tracking.request import Slug, parse_number


class Sign(IntEnum):
    """A sign that speaks for a courier, the strongest first."""

    CHECKED = 0
    FORM = 1
    NO_MODULE = 2
    LOOSE = 3
    CHECK_FAILED = 4
    DELIVERS = 5


MEANINGS = {
    Sign.CHECKED: "form and check digit fit",
    Sign.FORM: "the form fits; it has no check digit that is known",
    Sign.NO_MODULE: "looks like {name}: no module",
    Sign.LOOSE: "a form that fits, as it fits numbers of many others",
    Sign.CHECK_FAILED: "the form fits, the check digit does not",
    Sign.DELIVERS: "another post's number, which this post may deliver",
}

_OWN = 4
"""From so many characters on that a form fixes, a number hardly has it by chance (1 in 10,000)."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A courier that may have a number; sorted, the likeliest comes first.

    `rank` weighs what speaks for it, `place` says which of the courier's forms fits: the first is
    its most usual one.
    """

    rank: tuple[int, int]
    sign: Sign
    place: int
    slug: Slug
    name: str

    @property
    def meaning(self) -> str:
        """What speaks for the courier, in words."""
        return MEANINGS[self.sign].format(name=self.name)


UNSERVED: Mapping[Slug, tuple[str, numbers.NumberForm]] = MappingProxyType(
    {
        Slug("amazon"): ("Amazon", numbers.form(r"TB[ACM]\d{12}|[CF]\d{10}")),
        Slug("canpar"): ("Canpar", numbers.form(r"[CDKLSUXZ]\d{21}")),
        Slug("dhl-global-mail"): ("DHL eCommerce", numbers.form(r"GM(?=[A-Z]*\d)[0-9A-Z]{14,39}")),
        Slug("gofo"): ("GOFO Express", numbers.form(r"GFUS\d{14}")),
        Slug("landmark-global"): ("Landmark Global", numbers.form(r"LTN\d{8}N1")),
        Slug("lasership"): (
            "LaserShip",
            numbers.form(
                r"L[AEHINX][1-3]\d{7}|1LS7[12](?:\d{10}|\d\d01[1-4]\d{6}1)|1LSCX[0-9A-Z]{10}"
            ),
        ),
        Slug("old-dominion"): (
            "Old Dominion",
            numbers.form(r"(?:77[78]|072|780)\d{8}|80\d{9}", numbers.luhn),
        ),
        Slug("ontrac"): ("OnTrac", numbers.form(r"[CD]\d{14}", numbers.weights_1_and_2)),
        Slug("speedee"): ("Spee-Dee", numbers.form(r"SP\d{18}")),
        Slug("yodel"): ("Yodel", numbers.form(r"JJ?D\d{16}")),
        Slug("yunexpress"): ("YunExpress", numbers.form(r"YT\d{16}")),
    }
)
"""Forms that no other courier has, of couriers without a module; one that gets one is skipped."""


def detect(given: str, registry: Registry) -> tuple[Candidate, ...]:
    """Rank the couriers whose numbers look like `given`; empty when none do.

    Among them may be couriers that nobody can ask (Sign.NO_MODULE): they are named so that a person
    knows whose number it is. Raises MalformedJob for what is no number at all.
    """
    plain = parse_number(given)
    found = [candidate for slug in registry.slugs if (candidate := _served(slug, given, registry))]
    for slug, (name, known) in UNSERVED.items():
        if slug not in registry.slugs and _sign(known, plain) in (Sign.CHECKED, Sign.FORM):
            found.append(Candidate(_rank(Sign.NO_MODULE), Sign.NO_MODULE, 0, slug, name))
    return tuple(sorted(found))


def _served(slug: Slug, given: str, registry: Registry) -> Candidate | None:
    courier = registry.courier(slug)
    try:
        number = parse_number(given, registry.settings(slug).keep)
    except MalformedJob:
        return None
    forms: Sequence[numbers.NumberForm] = courier.PATTERNS
    fitting = [
        (_rank(sign, each.own(number)), sign, place)
        for place, each in enumerate(forms)
        if (sign := _sign(each, number)) is not None
    ]
    if (
        not fitting
        and numbers.ANY_S10.pattern.fullmatch(number)
        and any(each.is_s10 for each in forms)
    ):
        fitting = [(_rank(Sign.DELIVERS), Sign.DELIVERS, 0)]
    return Candidate(*min(fitting), slug, courier.NAME) if fitting else None


def _rank(sign: Sign, own: int = 0) -> tuple[int, int]:
    """Weigh a sign by the characters that are the courier's own; the smallest is the strongest."""
    if sign is Sign.CHECK_FAILED and own >= _OWN:
        return (1, -own)
    if sign is Sign.CHECKED:
        return (0 if own else 2, 0)
    return (sign + 2, -own if sign is Sign.LOOSE else 0)


def _sign(known: numbers.NumberForm, number: str) -> Sign | None:
    if not known.pattern.fullmatch(number):
        return None
    if known.check is None:
        return Sign.LOOSE if known.loose else Sign.FORM
    return Sign.CHECKED if known.check(number) else Sign.CHECK_FAILED
