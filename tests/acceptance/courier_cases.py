"""What a request to each courier can come to, and the numbers to which the courier site says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from couriers.registry import COURIERS
from devstack.site.found import SHAPES
from devstack.site.shapes.failures import Failure

SECRET = "made-up-secret-4711"  # noqa: S105 - nobody's
EVERY = sorted(COURIERS)


@dataclass(frozen=True)
class Case:
    """One kind of answer. `number` is 14 digits long: the only form that every courier takes.

    `stored`: what the document then says, for cases that end with one. `attempts`: the outcomes
    noted there. `state`: of the operation.
    """

    number: str
    attempts: Sequence[str]
    state: str = "SUCCESS"
    stored: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: int = 0
    error: str | None = None
    asked_again: bool = False


def _told(tag: str, *, delivered: bool = False) -> dict[str, Any]:
    return {"tag": tag, "delivered": delivered, "active": not delivered}


STORIES = {
    "delivered": Case(
        "15502370264988", ["answered"], stored=_told("Delivered", delivered=True), checkpoints=5
    ),
    "in transit": Case("15502370264989", ["answered"], stored=_told("InTransit"), checkpoints=3),
    "out for delivery": Case(
        "00000100000010", ["answered"], stored=_told("OutForDelivery"), checkpoints=4
    ),
    "exception": Case("00000200000010", ["answered"], stored=_told("Exception"), checkpoints=4),
    "unknown number": Case(
        "00000000000010", ["not_found"], stored=_told("Pending"), asked_again=True
    ),
}
ENDS = {
    "invalid number": Case(
        f"{Failure.INVALID}00000010", ["invalid_number"], "ERROR", error="invalid_number"
    ),
    "server error": Case(
        f"{Failure.DOWN}00000010",
        ["courier_down"] * 2,
        "ERROR",
        error="courier_down",
        asked_again=True,
    ),
    "unreadable body": Case(
        f"{Failure.CHANGED}00000010",
        ["unreadable_answer"] * 2,
        "ERROR",
        error="unreadable_answer",
        asked_again=True,
    ),
}
AUTH = Case(f"{Failure.AUTH}00000010", ["auth_failed"], "WAITING", asked_again=True)
REFUSED = (AUTH.number, f"{Failure.AUTH}00000011", f"{Failure.AUTH}00000012")
"""So many numbers in a row stop a courier that refuses our credentials."""

LIMITED = Case(f"{Failure.LIMITED}00000010", ["rate_limited"], "WAITING")

IMPOSSIBLE = {
    slug: SHAPES[slug].IMPOSSIBLE for slug in EVERY if hasattr(SHAPES[slug], "IMPOSSIBLE")
}
"""Numbers that a module refuses by itself, of couriers that have no answer for them."""

UNKNOWN_CODES = {
    (slug, code) for slug in EVERY for code in getattr(SHAPES[slug], "UNKNOWN_CODES", ())
}
"""Codes in the couriers' stories that their modules have no meaning for."""


def number_of(slug: str, case: str) -> str:
    """The number that has this courier say so."""
    if case == "invalid number" and slug in IMPOSSIBLE:
        return IMPOSSIBLE[slug]
    return (STORIES | ENDS)[case].number
