"""Tables, bars of progress and pages that are drawn on a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self, TextIO

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from service.observe.redact import printable

MANY = 200
"""From so many requests on, a person would wonder whether anything happens."""

PRINTED_SECONDS = 0.1
"""Lines above the bar are printed together: each print draws the bar again, as dear as a put."""

Part = Text | Table


def drawn(
    headers: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None
) -> Table:
    """Draw a table for a terminal; cells are taken literally, never as markup.

    A narrow one cuts no word: columns wrap between words, and where their longest words do not fit
    side by side, the cells of a row stand below each other, each behind its header.
    """
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = fitting([headers, *texts], width or Console().width)
    if widths is None:
        return _stacked(headers, texts)
    made = Table(box=None, header_style="bold", pad_edge=False)
    for header, wide in zip(headers, widths, strict=True):
        made.add_column(header, overflow="fold", width=wide)
    for row in texts:
        made.add_row(*map(Text, row))
    return made


def fitting(lines: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Find how wide each column is, so that no word is cut; None where that is too wide."""
    columns = list(zip(*lines, strict=True))
    least = [
        max(cell_len(word) for each in one for word in each.split() or ("",)) for one in columns
    ]
    wide = [max(map(cell_len, one)) for one in columns]
    spare = width - 2 * (len(columns) - 1)  # blanks between two
    if sum(least) > spare:
        return None
    while sum(wide) > spare:
        loose = [at for at, each in enumerate(wide) if each > least[at]]
        wide[max(loose, key=wide.__getitem__)] -= 1
    return wide


def _stacked(headers: Sequence[str], texts: Sequence[Sequence[str]]) -> Table:
    """Draw each row as lines of header and cell, with an empty line behind; empty cells are not."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for at, row in enumerate(texts):
        for header, text in zip(headers, row, strict=True):
            if text:
                made.add_row(header, Text(text))
        if at < len(texts) - 1:
            made.add_row("", "")
    return made


def styled(text: str, style: str) -> Text:
    """Draw a text."""
    return Text(text, style=style)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as it is drawn."""
    Console().print(drawn(headers, rows))


def can_redraw() -> bool:
    """Whether standard output is a terminal that can be drawn over; a dumb one cannot."""
    console = Console()
    return console.is_terminal and not console.is_dumb_terminal


async def watch(page: Callable[[], Awaitable[Sequence[Part]]], pace: float) -> None:
    """Show a page again every `pace` seconds, over the one before, until cancelled."""
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(Group(*await page()), refresh=True)
            await asyncio.sleep(pace)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f}/s")


def _progress(*columns: ProgressColumn, is_shown: bool) -> Progress:
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not is_shown,
        # What goes to a file must not appear on the terminal instead.
        redirect_stdout=False,
        redirect_stderr=False,
    )


class Bar:
    """A bar of progress on standard error, where that is a terminal and there is much to do.

    It shows the rate and the time that is left, below the lines that a verb prints.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._above: list[str] = []
        self._printed = 0.0
        self._shown = total >= MANY and Console(stderr=True).is_terminal
        columns = (BarColumn(), MofNCompleteColumn(), _Rate())
        self._progress = _progress(*columns, is_shown=self._shown)

    def count(self, stream: TextIO, line: str) -> None:
        """Count one more, and write its line to where it belongs."""
        if self._shown and stream.isatty():
            self._above.append(line)
            if time.monotonic() - self._printed >= PRINTED_SECONDS:
                self._print()
        else:
            stream.write(line)
        self._progress.advance(self._task)

    def _print(self) -> None:
        self._progress.console.print(Text("".join(self._above)), end="", soft_wrap=True)
        self._above.clear()
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        self._task = self._progress.add_task("", total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        self._print()
        self._progress.stop()


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """Draw a bar for each kind of work; what is given hears its name, how many are done, of all."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with _progress(*columns, is_shown=Console(stderr=True).is_terminal) as shown:
        tasks: dict[str, TaskID] = {}

        def progress(kind: str, done: int, total: int) -> None:
            if kind not in tasks:
                tasks[kind] = shown.add_task(kind, total=total)
            shown.update(tasks[kind], completed=done)

        yield progress
