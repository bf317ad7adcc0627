"""What the terminal shows: how far the run is, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from benchmarks.plan import Scenario, Table


@dataclass(slots=True)
class Course:
    """The bar of the whole run: one unit per scenario."""

    progress: Progress
    console: Console
    scenario: str = ""

    def begin(self, scenario: Scenario) -> None:
        """Tell which scenario runs now."""
        self.scenario = scenario.name
        self.say(scenario.what)

    def say(self, step: str) -> None:
        """Tell which step of it runs now."""
        text = f"{self.scenario}: {step}"
        self.progress.update(self.progress.task_ids[0], description=text)
        if not self.console.is_terminal:
            self.console.print(text)

    def end(self) -> None:
        """Move the bar on."""
        self.progress.advance(self.progress.task_ids[0])


@contextmanager
def course(scenarios: Sequence[Scenario], console: Console) -> Iterator[Course]:
    """Show a bar for the length of a `with` block; without a terminal, a line for each step."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        bar.add_task("", total=len(scenarios))
        yield Course(bar, console)


def show(table: Table, console: Console) -> None:
    """Print one table."""
    grid = Grid(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(table.columns):
        grid.add_column(column.heading, justify="left" if index == 0 else "right")
    for row in table.cells():
        grid.add_row(*row)
    console.print(grid)
    if table.note:
        console.print(table.note, style="dim", markup=False)
    console.print()
