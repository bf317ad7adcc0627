"""Line plots as SVG: axes, lines, labels. Readable on light and on dark pages. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 128, 40, 48
TICKS = 5

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-size: 14px; font-weight: 600 }
.axis { stroke: #888; fill: none }
.grid { stroke: #8884; fill: none }
.s0 { --c: #0b6bcb } .s1 { --c: #c4540a } .s2 { --c: #15803d } .s3 { --c: #9333ea }
.line { stroke: var(--c); fill: none; stroke-width: 2 }
.dot, .name { fill: var(--c) }
@media (prefers-color-scheme: dark) {
  text { fill: #ccc }
  .s0 { --c: #6cb2f7 } .s1 { --c: #f59e63 } .s2 { --c: #4ade80 } .s3 { --c: #c79bf7 }
}"""
COLOURS = 4

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot and the name at its end."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. `logarithmic`: only for values above 0. `low`, `high`: at least this is shown."""

    label: str
    logarithmic: bool = False
    low: float | None = None
    high: float | None = None


def plot(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> str:
    """Draw the lines that have points, at most four. Raises ValueError when none has."""
    lines = [line for line in lines if line.points][:COLOURS]
    if not lines:
        raise ValueError("nothing to draw")
    xs = Scale.over(x, [px for line in lines for px, _ in line.points], LEFT, WIDTH - RIGHT)
    ys = Scale.over(y, [py for line in lines for _, py in line.points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>",
        _text(LEFT, 20, title, "start", "title"),
        *_frame(x, y, xs, ys),
        *(part for index, line in enumerate(lines) for part in _line(index, line, xs, ys)),
        *_names(lines, ys),
        "</svg>\n",
    ]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values lie on the page: `low` at `begin`, `high` at `end`."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool

    @classmethod
    def over(cls, axis: Axis, values: Sequence[float], begin: float, end: float) -> Scale:
        """Make a scale that shows all `values`."""
        low = min(values) if axis.low is None else min(axis.low, *values)
        high = max(values) if axis.high is None else max(axis.high, *values)
        if low == high:
            high = low + (abs(low) or 1)
        return cls(low, high, begin, end, axis.logarithmic)

    def at(self, value: float) -> float:
        """Tell where a value lies."""
        low, high, value = map(self._bent, (self.low, self.high, value))
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Choose round values to label."""
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            powers = [10.0**power for power in range(first, last + 1)]
            return powers if len(powers) > 1 else [self.low, self.high]
        step = _round_step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [round((first + index) * step, 10) for index in range(count)]

    def _bent(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step)


def _frame(x: Axis, y: Axis, xs: Scale, ys: Scale) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [_path("axis", [(LEFT, TOP), (LEFT, bottom), (right, bottom)])]
    parts += [_text(xs.at(each), bottom + 16, f"{each:,.10g}", "middle") for each in xs.ticks()]
    for tick in ys.ticks():
        parts.append(_path("grid", [(LEFT, ys.at(tick)), (right, ys.at(tick))]))
        parts.append(_text(LEFT - 6, ys.at(tick) + 4, f"{tick:,.10g}", "end"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 10, x.label, "middle"))
    parts.append(_text(LEFT, TOP - 6, y.label, "middle"))
    return parts


def _line(index: int, line: Line, xs: Scale, ys: Scale) -> list[str]:
    points = [(xs.at(px), ys.at(py)) for px, py in sorted(line.points)]
    dots = (
        f'<circle class="dot s{index}" cx="{px:.1f}" cy="{py:.1f}" r="3"/>' for px, py in points
    )
    return [_path(f"line s{index}", points), *dots]


def _names(lines: Sequence[Line], ys: Scale) -> list[str]:
    """Write each name at the end of its line, and none over another."""
    ends = sorted((ys.at(max(line.points)[1]) + 4, index) for index, line in enumerate(lines))
    parts, free = [], 0.0
    for wanted, index in ends:
        free = max(wanted, free)
        name = _text(WIDTH - RIGHT + 10, free, lines[index].name, "start", f"name s{index}")
        parts.append(name)
        free += 15
    return parts


def _path(kind: str, points: Sequence[Point]) -> str:
    return f'<path class="{kind}" d="M{" L".join(f"{px:.1f} {py:.1f}" for px, py in points)}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
