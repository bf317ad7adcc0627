"""The plots that are put into the documents."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest

from benchmarks.svg import Axis, Line, Scale, plot

X = Axis("couriers", logarithmic=True)
Y = Axis("rate", low=0.8, high=1.0)
NAME = "{http://www.w3.org/2000/svg}"


def drawn(*lines: Line, title: str = "Rate") -> ET.Element:
    return ET.fromstring(plot(title, X, Y, lines))  # noqa: S314 - our own drawing


def test_every_point_is_drawn_inside_the_axes() -> None:
    root = drawn(Line("one", [(10, 0.98), (1200, 0.97)]), Line("two", [(50, 0.7)]))

    dots = [
        (float(dot.get("cx", 0)), float(dot.get("cy", 0))) for dot in root.iter(f"{NAME}circle")
    ]
    _, _, width, height = map(float, root.get("viewBox", "").split())
    assert len(dots) == 3
    assert all(0 < x < width and 0 < y < height for x, y in dots)


def test_a_greater_value_is_drawn_higher_and_further_right() -> None:
    low, high = drawn(Line("one", [(1000, 0.99), (10, 0.9)])).iter(f"{NAME}circle")

    assert float(low.get("cx", 0)) < float(high.get("cx", 0))
    assert float(low.get("cy", 0)) > float(high.get("cy", 0))


def test_title_labels_and_names_are_written_as_text() -> None:
    root = drawn(Line("a < b & c", [(10, 1.0)]), title="1 < 2")

    texts = {text.text for text in root.iter(f"{NAME}text")}
    assert {"1 < 2", "couriers", "rate", "a < b & c"} <= texts


def test_it_is_readable_on_a_dark_page() -> None:
    assert "prefers-color-scheme: dark" in plot("Rate", X, Y, [Line("one", [(10, 1.0)])])


def test_names_of_lines_that_end_together_do_not_cover_each_other() -> None:
    root = drawn(*(Line(name, [(10, 0.98), (100, 0.98)]) for name in ("one", "two", "three")))

    heights = [
        float(t.get("y", 0)) for t in root.iter(f"{NAME}text") if "name" in t.get("class", "")
    ]
    assert len(heights) == 3
    assert min(b - a for a, b in itertools.pairwise(heights)) >= 12


def test_lines_without_points_are_left_out() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        plot("Rate", X, Y, [Line("one", [])])


@pytest.mark.parametrize(
    ("axis", "values", "ticks"),
    [
        (Axis("", logarithmic=True), [10, 2400], [10, 100, 1000]),
        (Axis("", logarithmic=True), [20, 50], [20, 50]),
        (Axis("", low=0.8, high=1.0), [0.9], [0.8, 0.85, 0.9, 0.95, 1.0]),
        (Axis("", low=0), [430], [0, 100, 200, 300, 400]),
        (Axis(""), [7.0], [8, 10, 12, 14]),
    ],
)
def test_ticks_are_round_values_within_the_axis(
    axis: Axis, values: list[float], ticks: list[float]
) -> None:
    assert Scale.over(axis, values, 0, 100).ticks() == ticks
