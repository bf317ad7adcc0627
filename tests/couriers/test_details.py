"""Weight, service, reference, proof of delivery and sub-parcels, from every courier that has them.

What each answer has besides its events stands in details_told.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from details_told import MORE, SEVERAL, TOLD
from parser_subject import NUMBER, Subject
from parser_subjects import SUBJECTS

from couriers.registry import COURIERS, MODULES
from tracking.checkpoint import Tracking

DETAILS = ("proof_of_delivery", "weight_grams", "service", "reference", "sub_parcels")
SLUGS = {module: slug for slug, module in {**COURIERS, **MODULES}.items()}
BY_SLUG: dict[str, Subject] = {}
for one in SUBJECTS:
    slug = SLUGS[one.module]  # type: ignore[index]
    BY_SLUG[f"{slug} (MyDHL)" if slug in BY_SLUG else slug] = one


def merged(base: Any, more: Any) -> Any:
    """Put `more` into an answer: members into an object or the first of a list, a list behind."""
    match base, more:
        case dict(), dict():
            return base | {
                name: merged(base[name], value) if name in base else value
                for name, value in more.items()
            }
        case list(), list():
            return base + more
        case [first, *rest], dict():
            return [merged(first, more), *rest]
    return more


def read(slug: str, more: Any) -> Tracking:
    subject = BY_SLUG[slug]
    code = next((code for code in subject.codes if subject.delivered(("", "Delivered", code))), "")
    answer = subject.answer([("2026-01-05T08:15:00", "Delivered", code)])
    told = subject.module.parse(200, {}, subject.encode(merged(answer, more)), NUMBER)
    assert isinstance(told, Tracking)
    return told


def details(told: Tracking) -> Mapping[str, object]:
    return {name: value for name in DETAILS if (value := getattr(told, name))}


@pytest.mark.parametrize("slug", TOLD)
def test_what_a_courier_tells_of_a_parcel_is_stored_under_one_name(slug: str) -> None:
    more, expected = TOLD[slug]

    assert details(read(slug, more)) == expected


@pytest.mark.parametrize("slug", SEVERAL)
def test_the_same_of_what_stands_elsewhere_in_an_answer(slug: str) -> None:
    assert details(read(slug, SEVERAL[slug])) == MORE[slug]


@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_a_bare_answer_tells_none_of_it(slug: str) -> None:
    assert details(read(slug, {})) == {}


def test_the_table_of_the_documentation_says_the_same() -> None:
    page = (Path(__file__).parents[2] / "docs/couriers.md").read_text()
    table = page.partition("<!-- table of couriers: told -->")[2].partition("<!-- end")[0]
    head, _, *rows = [line.replace("`", "").split("|") for line in table.strip().split("\n")]
    written = {
        row[1].strip(): {
            name.strip() for name, cell in zip(head, row, strict=True) if cell.strip() == "yes"
        }
        for row in rows
    }

    given: dict[str, set[str]] = {slug: set() for slug in written}
    for slug, (_, expected) in TOLD.items():
        given[slug.partition(" ")[0]] |= expected.keys() | MORE.get(slug, {}).keys()
    assert {slug: names & set(DETAILS) for slug, names in written.items()} == given


ODD = [None, "", [], {}, 0, -1, True, "x", [[]], [{}], {"value": {}}, {"value": "1e400"}, ["a", 1]]


def leaves(more: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(more, dict):
        return [path]
    return [path, *(leaf for name in more for leaf in leaves(more[name], (*path, name)))]


def at(path: tuple[str, ...], value: object) -> Any:
    return {path[0]: at(path[1:], value)} if path else value


NAMES_THE_PARCEL_TOO = {("dhl", "references"), ("postnord", "references")}
LENIENT = [
    (slug, path)
    for slug, (more, _) in TOLD.items()
    for path in leaves(more)
    if path and re.search("weight|service|product|reference|dimension", path[-1].lower())
    if slug != "json_feed" and not BY_SLUG[slug].elements  # ours to be strict with; no forms in XML
    if (slug, path[-1]) not in NAMES_THE_PARCEL_TOO
]


@pytest.mark.parametrize(("slug", "path"), LENIENT, ids=lambda value: str(value)[:60])
def test_a_detail_in_an_odd_form_is_not_told_and_spoils_nothing(
    slug: str, path: tuple[str, ...]
) -> None:
    plain = read(slug, {})
    for odd in ODD:
        told = read(slug, at(path, odd))
        assert (told.tag, told.checkpoints) == (plain.tag, plain.checkpoints)
