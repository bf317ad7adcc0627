"""Lengths of time and instants, as all verbs word them."""

from __future__ import annotations

import pytest
from command_line import Run

from service.cli.output import moment, span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, "0 s"),
        (0.4, "under 1 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3_605, "1 h"),
        (7_260, "2 h 1 min"),
        (86_400, "1 d"),
        (200_000, "2 d 7 h"),
    ],
)
def test_lengths_of_time_are_worded_with_at_most_two_units_and_none_of_them_is_nought(
    seconds: float | None, words: str
) -> None:
    assert span(seconds) == words


def test_no_instant_is_no_words() -> None:
    assert moment(None) == ""


@pytest.mark.parametrize("verb", [("cancel", "--older-than"), ("resend", "--since")])
@pytest.mark.parametrize("text", ["2026", "2026-11-20", "-1h", "1_0h", "1e3s", "nan", "h", ""])
def test_what_acts_on_many_takes_a_length_of_time_with_its_unit_alone(
    offline: Run, verb: tuple[str, str], text: str
) -> None:
    done = offline(verb[0], f"{verb[1]}={text}", "--yes")

    assert done.code == 2
    assert "90s, 15m, 2h or 3d" in done.err
