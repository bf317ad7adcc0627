"""Plots as SVG that the server draws: they are read without a script, and by screen readers.

Sizes stand in attributes and colours in the style sheet, as `frame.POLICY` takes no inline one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

WIDTH, HEIGHT, FOOT = 400, 110, 18
SPARK_WIDTH, SPARK_HEIGHT = 128, 24


class Bar(NamedTuple):
    """A bar: what it is called, how much it is, and how much of that is bad."""

    name: str
    value: float
    bad: float = 0.0


def bars(title: str, given: Sequence[Bar]) -> Markup:
    """Draw bars side by side, the bad part of each at its foot; `title` says what they count."""
    most = max((each.value for each in given), default=0) or 1
    wide = WIDTH / max(len(given), 1)
    drawn = [_bar(each, at * wide, wide, most) for at, each in enumerate(given)]
    first, last = (given[0].name, given[-1].name) if given else ("", "")
    return Markup(
        '<svg class="plot" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{drawn}'
        '<line class="axis" x1="0" y1="{base}" x2="{width}" y2="{base}"/>'
        '<text x="0" y="11">{most}</text><text x="0" y="{foot}">{first}</text>'
        '<text x="{width}" y="{foot}" text-anchor="end">{last}</text></svg>'
    ).format(
        width=WIDTH,
        height=HEIGHT + FOOT,
        base=HEIGHT,
        foot=HEIGHT + FOOT - 4,
        title=f"{title}: {most:,g} at most",
        drawn=Markup("").join(drawn),
        most=f"{most:,g}",
        first=first,
        last=last,
    )


def _bar(bar: Bar, left: float, wide: float, most: float) -> Markup:
    room = HEIGHT - 14
    height, bad = room * bar.value / most, room * min(bar.bad, bar.value) / most
    says = f"{bar.name}: {bar.value:,g}" + (f", {bar.bad:,g} of them bad" if bar.bad else "")
    rectangle = Markup(
        '<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>'
    )
    parts = [("bar", HEIGHT - height, height)]
    if bad:
        parts.append(("bar-bad", HEIGHT - bad, bad))
    drawn = [
        rectangle.format(name=name, x=left + 0.5, y=y, w=max(wide - 1, 0.5), h=h)
        for name, y, h in parts
    ]
    return Markup("<g><title>{}</title>{}</g>").format(says, Markup("").join(drawn))


def sparkline(title: str, values: Sequence[float]) -> Markup:
    """Draw values as a line in a row of a table; `title` says what they are."""
    most = max(values, default=0) or 1
    step = SPARK_WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{at * step:.1f},{SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 2) * value / most:.1f}"
        for at, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        '<polyline points="{points}"/></svg>'
    ).format(width=SPARK_WIDTH, height=SPARK_HEIGHT, title=title, points=points)
