"""The judge of fault runs sees statistics that tell more, or less, than what ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.verdict import breaches
from test_verdict import GOOD

RIGHT = {"named": {"SUCCESS": 1, "lost": 1}, "plain": {"SUCCESS": 1}, "": {"SUCCESS": 2, "lost": 1}}


def test_statistics_that_tell_what_ended_pass() -> None:
    assert breaches(replace(GOOD, tallies=RIGHT)) == []


@pytest.mark.parametrize("slug", list(RIGHT))
@pytest.mark.parametrize("wrong", [{}, {"SUCCESS": 3}, {"SUCCESS": 1, "ERROR": 1}])
def test_statistics_that_tell_anything_else_are_seen(slug: str, wrong: dict[str, int]) -> None:
    found = breaches(replace(GOOD, tallies={**RIGHT, slug: wrong}))

    assert {breach.invariant for breach in found} == {"I8"}
