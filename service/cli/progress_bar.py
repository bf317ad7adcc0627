"""How far a large `put` is, with its rate and the time that is left, below the lines it prints."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TimeRemainingColumn,
)
from rich.text import Text

MANY = 200
"""From so many requests on, a person would wonder whether anything happens."""

PRINTED_SECONDS = 0.1
"""Lines above the bar are printed together: each print draws the bar again, as dear as a put."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f}/s")


class Bar:
    """A bar on standard error, where that is a terminal and there is much to do."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._above: list[str] = []
        self._printed = 0.0
        self._console = Console(stderr=True)
        self._shown = total >= MANY and self._console.is_terminal
        self._progress = Progress(
            *(BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()),
            console=self._console,
            disable=not self._shown,
            # What goes to a file must not appear on the terminal instead.
            redirect_stdout=False,
            redirect_stderr=False,
        )

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
        self._console.print(Text("".join(self._above)), end="", soft_wrap=True)
        self._above.clear()
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        self._task = self._progress.add_task("", total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._print()
        self._progress.stop()
