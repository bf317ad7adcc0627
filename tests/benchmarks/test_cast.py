"""A cast shows what a terminal showed, and loads nothing."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

from benchmarks.cast import FRAMES_MOST, Frame, record, svg

PROGRAM = "print('\\x1b[32mok\\x1b[0m <all> & more', flush=True)"


def test_a_cast_holds_the_words_and_colours_of_a_terminal() -> None:
    frames, code = record([sys.executable, "-c", PROGRAM])

    assert code == 0
    assert frames[-1].rows[0] == ((0, "green", "ok"), (3, "default", "<all> & more"))
    drawn = svg("a run", frames)
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[-2:] == ["ok", "<all> & more"]
    assert 'class="green"' in drawn


def test_a_cast_is_bounded_in_its_frames_and_loads_nothing() -> None:
    several = [Frame(float(at), (((0, "default", f"second {at}"),),)) for at in range(500)]

    drawn = svg("a long run", several)

    assert drawn.count("<g ") <= FRAMES_MOST + 1
    assert "second 499" in drawn
    assert [word for word in ("href", "url(", "src=", "@import") if word in drawn] == []
