"""A run as one picture: calls per second, who waits, and the faults below. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from chaos.evidence import Evidence
from chaos.nemesis import Done

SECOND_NS = 1_000_000_000
WIDTH, LEFT, RIGHT = 1000, 230, 20
CURVE_HEIGHT, ROW_HEIGHT, HEAD = 90, 13, 24
STYLE = """\
text { font: 11px system-ui, sans-serif; fill: #333 }
polyline { fill: none; stroke-width: 1.3 }
.calls { stroke: #0b6bcb } .waiting { stroke: #c4540a }
rect { fill: #b3261e; opacity: .75 }
line { stroke: #8884 }
@media (prefers-color-scheme: dark) {
  text { fill: #ccc } .calls { stroke: #6cb2f7 } .waiting { stroke: #f59e63 } rect { fill: #f2827a }
}"""


def draw(found: Evidence) -> str:
    """Draw the run as an SVG document."""
    done = sorted(found.meanwhile.done, key=lambda each: each.began)
    starts = [each.call.arrived_ns / SECOND_NS for each in found.calls]
    looks = found.meanwhile.looks
    begin = min([*starts, *(look.at for look in looks)], default=0.0)
    end = max([*starts, *(look.at for look in looks), *(each.ended for each in done)], default=1.0)
    scale = _Scale(begin, max(1.0, end - begin))
    per_second = Counter(int(at - begin) for at in starts)
    calls = [(second, float(per_second[second])) for second in range(int(end - begin) + 1)]
    most: dict[int, float] = {}
    for look in looks:
        second = int(look.at - begin)
        most[second] = max(most.get(second, 0.0), float(sum(look.waiting.values())))
    waiting = [(float(second), count) for second, count in most.items()]
    kinds = sorted({each.kind for each in done})
    height = HEAD + 2 * (CURVE_HEIGHT + HEAD) + ROW_HEIGHT * len(kinds) + HEAD
    parts = [
        *_curve(scale, calls, "calls", "calls per second, all couriers", HEAD),
        *_curve(scale, waiting, "waiting", "waiting in Redis", 2 * HEAD + CURVE_HEIGHT),
        *_bars(scale, done, kinds, 2 * (HEAD + CURVE_HEIGHT) + HEAD),
        *_seconds(scale, height),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>A fault run, second by second</title><style>{STYLE}</style>"
        + "".join(parts)
        + "</svg>\n"
    )


class _Scale:
    """Seconds of the run to places on the picture."""

    def __init__(self, begin: float, seconds: float) -> None:
        self.begin, self.seconds = begin, seconds

    def x(self, second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds


def _curve(
    scale: _Scale, points: Sequence[tuple[float, float]], kind: str, title: str, top: int
) -> Iterator[str]:
    most = max((value for _, value in points), default=0.0) or 1.0
    places = " ".join(
        f"{scale.x(second):.1f},{top + CURVE_HEIGHT * (1 - value / most):.1f}"
        for second, value in points
    )
    yield f'<text x="4" y="{top + 12}">{escape(title)}</text>'
    yield f'<text x="4" y="{top + 26}">at most {most:g}</text>'
    yield f'<polyline class="{kind}" points="{places}"/>'


def _bars(scale: _Scale, done: Sequence[Done], kinds: Sequence[str], top: int) -> Iterator[str]:
    for row, kind in enumerate(kinds):
        yield f'<text x="4" y="{top + row * ROW_HEIGHT + 10}">{escape(kind)}</text>'
    for each in done:
        x = scale.x(each.began - scale.begin)
        width = max(2.0, scale.x(each.ended - scale.begin) - x)
        y = top + kinds.index(each.kind) * ROW_HEIGHT + 2
        yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW_HEIGHT - 4}"/>'


def _seconds(scale: _Scale, height: int) -> Iterator[str]:
    step = next(step for step in (10, 30, 60, 300) if scale.seconds < 20 * step or step == 300)
    for second in range(0, int(scale.seconds) + 1, step):
        x = scale.x(second)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD}" y2="{height - HEAD}"/>'
        yield f'<text x="{x:.1f}" y="{height - 8}">{second} s</text>'
