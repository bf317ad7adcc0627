"""The judge of fault runs sees statistics and archives that tell anything else than what ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.verdict import breaches
from test_verdict import GOOD

ENDED = {"named": {"SUCCESS": 1, "lost": 1}, "plain": {"SUCCESS": 1}, "": {"SUCCESS": 2, "lost": 1}}
RIGHT = {
    **{(place, slug): ENDED[slug] for place in ("10 min", "day", "MongoDB") for slug in ENDED},
    ("10 s", ""): ENDED[""],
    ("totals", ""): {"SUCCESS": 2},
}


def test_statistics_that_tell_what_ended_pass() -> None:
    assert breaches(replace(GOOD, tallies=RIGHT)) == []


@pytest.mark.parametrize("where", list(RIGHT), ids=" ".join)
@pytest.mark.parametrize("wrong", [{}, {"SUCCESS": 3}, {"SUCCESS": 1, "ERROR": 1}])
def test_statistics_that_tell_anything_else_are_seen(
    where: tuple[str, str], wrong: dict[str, int]
) -> None:
    found = breaches(replace(GOOD, tallies={**RIGHT, where: wrong}))

    assert {breach.invariant for breach in found} == {"I8"}


def test_an_archive_that_has_each_operation_once_passes() -> None:
    right = {"one": [("named", "SUCCESS")], "plain:PARCEL4:job": [("plain", "SUCCESS")]}

    assert breaches(replace(GOOD, archived=right)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"one": [], "anonymous": [("plain", "SUCCESS")]},
        {"one": [("named", "ERROR")], "anonymous": [("plain", "SUCCESS")]},
        {"one": [("named", "SUCCESS")] * 2, "anonymous": [("plain", "SUCCESS")]},
        {"other": [("named", "SUCCESS")], "anonymous": [("plain", "SUCCESS")]},
        {"one": [("named", "SUCCESS")]},
    ],
    ids=["missing", "ended otherwise", "twice", "another", "of no id missing"],
)
def test_an_archive_that_tells_anything_else_is_seen(
    wrong: dict[str, list[tuple[str, str]]],
) -> None:
    found = breaches(replace(GOOD, archived=wrong))

    assert {breach.invariant for breach in found} == {"I8"}
