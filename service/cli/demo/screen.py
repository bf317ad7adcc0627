"""What the demo shows: a live table on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from limits.view import SlugView
from service.cli.demo.proof import Figure
from service.cli.demo.script import COURIERS
from tracking.request import Slug

PLAIN_EVERY_SECONDS = 3.0
SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """Where things stand. `put`, `stored` and `dead` count parcels by slug."""

    seconds: float
    put: Mapping[str, int]
    stored: Mapping[str, int]
    dead: Mapping[str, int]
    slugs: Sequence[SlugView]
    news: str


class Screen:
    """Shows progress; `with` it around the run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._said_at = 0.0
        self._news = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Show where things stand."""
        if self._console.is_terminal:
            self._live.update(Group(_table(progress), Text(progress.news, style="bold yellow")))
            return
        if progress.news != self._news:
            self._news = progress.news
            self._console.print(f"{progress.seconds:5.1f} s  {progress.news}")
        if time.monotonic() - self._said_at >= PLAIN_EVERY_SECONDS:
            self._said_at = time.monotonic()
            waiting = sum(view.waiting_manual + view.waiting_later for view in progress.slugs)
            running = sum(view.running for view in progress.slugs)
            self._console.print(
                f"{progress.seconds:5.1f} s  stored {sum(progress.stored.values())} of "
                f"{sum(progress.put.values())}, dead {sum(progress.dead.values())}, "
                f"waiting {waiting}, running {running}"
            )


def _table(progress: Progress) -> Table:
    table = Table(title=f"{progress.seconds:.0f} s", title_justify="left", expand=False)
    for name in ("courier", "put", "stored", "dead", "waiting", "running", "last second", ""):
        right = name in {"put", "stored", "dead", "waiting", "running", "last second"}
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    views = {view.slug: view for view in progress.slugs}
    for courier in COURIERS:
        slug = courier.slug
        view = views[Slug(slug)]
        put, stored = progress.put.get(slug, 0), progress.stored.get(slug, 0)
        dead = progress.dead.get(slug, 0)
        waiting = view.waiting_manual + view.waiting_later
        table.add_row(
            slug,
            str(put),
            str(stored),
            str(dead or ""),
            str(waiting or ""),
            f"{view.running}/{view.concurrent}",
            f"{view.started_last_second}/{view.per_second}",
            ProgressBar(total=max(put, 1), completed=stored + dead, width=24),
        )
    return table


def results(documents: Iterable[Mapping[str, Any]], dead: Iterable[Mapping[str, Any]]) -> Table:
    """Some of what MongoDB holds now, and what was set aside."""
    table = Table(title="Read back from MongoDB, bucket.tracking and bucket.dead (some of it)")
    for name in ("parcel", "tag", "checkpoints", "newest checkpoint"):
        table.add_column(name, overflow="fold")
    for document in documents:
        newest = document["checkpoints"][-1] if document["checkpoints"] else None
        told = f"{newest['checkpoint_time']}  {newest['message']}" if newest else ""
        name = f"{document['slug']}:{document['tracking_number']}"
        table.add_row(name, document["tag"], str(len(document["checkpoints"])), told)
    for letter in dead:
        name = (
            f"{letter['slug']}:{letter['number']}" if letter["number"] else f"job {letter['job']}"
        )
        table.add_row(name, "[red]dead[/red]", "", f"{letter['reason']}: {letter['detail']}")
    return table


def proof(figures: Iterable[Figure]) -> Table:
    """The figures, and whether each is what was promised."""
    table = Table(title="Proof, measured at the courier site and from the producer's own list")
    table.add_column("figure")
    table.add_column("measured", justify="right", overflow="fold")
    table.add_column("promised", justify="right")
    table.add_column("")
    for figure in figures:
        mark = "[green]ok[/green]" if figure.kept else "[bold red]WRONG[/bold red]"
        table.add_row(figure.name, figure.value, figure.promised, mark if figure.promised else "")
    return table
