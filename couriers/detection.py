"""Which couriers may have a number: a ranked list, because most forms belong to several.

A check digit that fails lowers the rank and excludes nobody. A number of the form S10 names the
post of its origin; the post that delivers it knows it too, so all posts stand below that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tracking_numbers import DEFINITIONS

from couriers.reading.check_digits import checks, is_s10
from couriers.registry import Registry
from tracking.errors import MalformedJob
from tracking.request import Slug, parse_number

POSTS = frozenset(
    Slug(slug)
    for slug in (
        "australia-post",
        "bring",
        "canada-post",
        "hong-kong-post",
        "la-poste-colissimo",
        "postnl",
        "postnord",
        "royal-mail",
        "usps",
    )
)
"""Who delivers what other posts send."""

_LISTED = {code: Slug(code) for code in ("dhl", "fedex", "ups", "usps")}
"""Couriers whose forms and check digits the library knows, by its codes."""


class Sign(IntEnum):
    """What speaks for a courier, the strongest first."""

    CHECKED = 0
    FORM = 1
    CHECK_FAILED = 2
    DELIVERS = 3


MEANINGS = {
    Sign.CHECKED: "form and check digit fit",
    Sign.FORM: "the form fits; it has no check digit that is known",
    Sign.CHECK_FAILED: "the form fits, the check digit does not",
    Sign.DELIVERS: "another post's number, which this post may deliver",
}


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A courier that may have a number; sorted, the likeliest comes first.

    `place` says which of the courier's patterns fits: the first is its most usual form.
    """

    sign: Sign
    place: int
    slug: Slug
    name: str


def detect(given: str, registry: Registry) -> tuple[Candidate, ...]:
    """Rank the couriers whose numbers look like `given`; empty when none do.

    Raises MalformedJob for what is no number at all.
    """
    plain = parse_number(given)
    listed = _listed(plain)
    found = []
    for slug in registry.slugs:
        candidate = _candidate(slug, given, registry, listed)
        if candidate is not None:
            found.append(candidate)
    return tuple(sorted(found))


def _candidate(
    slug: Slug, given: str, registry: Registry, listed: dict[Slug, bool]
) -> Candidate | None:
    courier = registry.courier(slug)
    try:
        number = parse_number(given, registry.settings(slug).keep)
    except MalformedJob:
        return None
    fits = (place for place, form in enumerate(courier.PATTERNS) if form.fullmatch(number))
    place = next(fits, len(courier.PATTERNS))
    if place == len(courier.PATTERNS) and not listed.get(slug):
        delivers = slug in POSTS and is_s10(number)
        return Candidate(Sign.DELIVERS, 0, slug, courier.NAME) if delivers else None
    match checks(slug, number, listed):
        case True:
            sign = Sign.CHECKED
        case False:
            sign = Sign.CHECK_FAILED
        case None:
            sign = Sign.FORM
    return Candidate(sign, place, slug, courier.NAME)


def _listed(number: str) -> dict[Slug, bool]:
    """Ask the library: True where one of a courier's forms fits with its check digit."""
    found: dict[Slug, bool] = {}
    for definition in DEFINITIONS:
        slug = _LISTED.get(definition.courier.code)
        tested = definition.test(number) if slug else None
        if slug and tested:
            found[slug] = found.get(slug, False) or tested.valid
    return found
