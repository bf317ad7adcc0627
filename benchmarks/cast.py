"""A cast of the demo, as an SVG that plays by itself: `python -m benchmarks.cast FILE`.

The demo runs on a terminal of its own; what it shows is kept each quarter of a second, and equal
pictures once. Styles stand in the file: nothing is loaded from elsewhere.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyte

COLUMNS, ROWS = 96, 34
EACH_SECONDS = 0.25
FRAMES_MOST = 40
LAST_SECONDS = 12.0
"""How long the proof at the end stands before it begins again."""

CHARACTER, LINE, MARGIN = 8.4, 17, 14
COLOURS = {
    "red": "#e5534b",
    "green": "#57ab5a",
    "brown": "#c69026",
    "blue": "#539bf5",
    "magenta": "#b083f0",
    "cyan": "#39c5cf",
}
"""Of a terminal, by pyte's names; all other text is of the terminal's own colour."""


class Frame(NamedTuple):
    """What a terminal showed, from this second on: runs of text with their colours, by row."""

    at: float
    rows: tuple[tuple[tuple[int, str, str], ...], ...]


def record(command: Sequence[str]) -> tuple[list[Frame], int]:
    """Run a command on a terminal of its own; gives what it showed, and its exit code."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": f"{COLUMNS}", "LINES": f"{ROWS}", "TERM": "xterm-256color"}
    screen = pyte.Screen(COLUMNS, ROWS)
    stream, frames, began = pyte.ByteStream(screen), list[Frame](), time.monotonic()
    with subprocess.Popen(  # noqa: S603 - the project's own program
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **size}
    ) as process:
        os.close(theirs)
        for data in _read(ours):
            if data:
                stream.feed(data)
            _keep(frames, Frame(time.monotonic() - began, _rows(screen)))
        code = process.wait()
    os.close(ours)
    _keep(frames, Frame(time.monotonic() - began, _rows(screen)))
    return frames, code


def _read(terminal: int) -> Iterator[bytes]:
    """Give what comes, in pieces of EACH_SECONDS, until nobody writes any more."""
    while True:
        ends, data = time.monotonic() + EACH_SECONDS, b""
        while (left := ends - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                try:
                    data += os.read(terminal, 65_536)
                except OSError:  # the last one closed it
                    yield data
                    return
        yield data


def _keep(frames: list[Frame], frame: Frame) -> None:
    if any(frame.rows) and (not frames or frames[-1].rows != frame.rows):
        frames.append(frame)


def _rows(screen: pyte.Screen) -> tuple[tuple[tuple[int, str, str], ...], ...]:
    return tuple(tuple(_runs(screen.buffer[row])) for row in range(ROWS))


def _runs(line: dict[int, pyte.screens.Char]) -> Iterator[tuple[int, str, str]]:
    """Give runs of one colour: where each begins, its colour, its text."""
    cells = [(column, line[column].fg, line[column].data) for column in range(COLUMNS)]
    for colour, run in groupby(cells, key=lambda cell: cell[1]):
        several = list(run)
        text = "".join(data for _, _, data in several)
        left = len(text) - len(text.lstrip())
        if text.strip():
            yield several[0][0] + left, colour, text.strip()


def svg(title: str, frames: Sequence[Frame]) -> str:
    """Draw frames one after the other, again and again; the last one stands longest."""
    shown = _thinned(frames)
    ends = [each.at for each in shown[1:]] + [shown[-1].at + LAST_SECONDS]
    whole = ends[-1] - shown[0].at
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    styles, groups = [], []
    for number, (frame, end) in enumerate(zip(shown, ends, strict=True)):
        begin, over = ((at - shown[0].at) / whole * 100 for at in (frame.at, end))
        styles.append(
            f"@keyframes k{number}{{0%,{begin:.2f}%{{opacity:0}}{begin + 0.01:.2f}%,{over:.2f}%"
            f"{{opacity:1}}{min(over + 0.01, 100):.2f}%,100%{{opacity:0}}}}"
            f"#f{number}{{animation:k{number} {whole:.1f}s linear infinite}}"
        )
        groups.append(f'<g id="f{number}" class="f">{_drawn(frame)}</g>')
    colours = "".join(f".{name}{{fill:{value}}}" for name, value in COLOURS.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}</title><style>text{{font:13px ui-monospace,Menlo,monospace;"
        f"fill:#cdd9e5;white-space:pre}}.f{{opacity:0}}#f{len(shown) - 1}{{opacity:1}}{colours}"
        "@media(prefers-reduced-motion:no-preference){" + "".join(styles) + "}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#1c2128"/>'
        + "\n".join(groups)
        + "</svg>\n"
    )


def _thinned(frames: Sequence[Frame]) -> list[Frame]:
    """Take as many as may be, evenly in time, the last one among them."""
    step = max(1, -(-len(frames) // FRAMES_MOST))
    return [*frames[:-1:step], frames[-1]]


def _drawn(frame: Frame) -> str:
    return "".join(
        f'<text x="{MARGIN + column * CHARACTER:.0f}" y="{MARGIN + LINE * (row + 1) - 4}"'
        f"{f' class={chr(34)}{colour}{chr(34)}' if colour in COLOURS else ''}"
        f' textLength="{len(text) * CHARACTER:.0f}">{escape(text)}</text>'
        for row, runs in enumerate(frame.rows)
        for column, colour, text in runs
    )


def main() -> int:
    """Record the demo; returns its exit code."""
    [file] = sys.argv[1:] or ["docs/pictures/demo.svg"]
    frames, code = record([sys.executable, "worker.py", "demo"])
    if code == 0:
        Path(file).write_text(svg("make demo, as it ran", frames), "utf-8")
        sys.stdout.write(f"{file}: {len(frames)} pictures, {Path(file).stat().st_size:,} bytes\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
