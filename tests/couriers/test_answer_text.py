"""Texts of answers are trimmed and their blanks joined, and nothing else happens to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.reading.answer import text

PIECES = st.sampled_from(["a", "\u00e9", " ", "  ", "\t", "\0", "\x01", "\xa0", "\u3000", "\u200b"])


@given(st.text() | st.lists(PIECES).map("".join))
def test_clean_text_takes_a_short_way_to_what_the_long_one_makes_of_it(given_text: str) -> None:
    joined = " ".join(given_text.replace("\0", " ").split())

    assert text(given_text) == (None if joined in ("", "null") else joined)


@pytest.mark.parametrize("nothing", [None, "", " ", "\0", "null", " null "])
def test_nothing_and_the_word_for_it_are_none(nothing: str | None) -> None:
    assert text(nothing) is None


@pytest.mark.parametrize(("number", "told"), [(0, "0"), (97201, "97201"), (1.5, "1.5")])
def test_numbers_become_text(number: float, told: str) -> None:
    assert text(number) == told
