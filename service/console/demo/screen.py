"""The screen of the demo: a live table on a terminal, else a line every few seconds.

Everything fits into 80 columns and 24 lines.
"""

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

from service.console.demo.proof import Evidence, Figure, is_genuine, parcel_of
from service.console.demo.script import (
    CALL_TIMEOUT_SECONDS,
    CONCURRENT,
    COPIES,
    COURIERS,
    FAILING,
    HOOKED,
    KILL_AFTER_SECONDS,
    LEASE_SECONDS,
    PER_SECOND,
    POSTED,
    PROCESSES,
    SLOW,
    SLOW_TIMEOUT_SECONDS,
    USER,
    requests,
)
from service.operator.look import LineSnapshot
from tracking.line import Line

STAYING = "\nAll have ended. A request a second goes on, and the pages stay up until Ctrl-C."
KEPT = "\nEvery promise was kept.\n"
BROKEN = "\n[bold red]A promise was not kept: look for WRONG above.[/bold red]\n"
PLAIN_EVERY_SECONDS = 3.0
SAMPLES = 5
LEGEND = Text(
    f"waiting: in Redis, for their turn. running: calls in flight, of at most {CONCURRENT}.\n"
    f"starts/s: calls begun in the last second, of at most {PER_SECOND}.",
    style="dim",
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where things stand. `put`, `stored` and `dead` count parcels by slug."""

    seconds: float
    put: Mapping[str, int]
    stored: Mapping[str, int]
    dead: Mapping[str, int]
    lines: Sequence[LineSnapshot]
    news: str


class Screen:
    """Shows progress; `with` it around the run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        # A dumb terminal cannot draw over what it shows: a live table would come at the end only.
        self._moving = console.is_terminal and not console.is_dumb_terminal
        self._said_at = 0.0
        self._news = ""

    def __enter__(self) -> Self:
        if self._moving:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._moving:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Show where things stand."""
        if self._moving:
            self._live.update(live(progress))
            return
        if progress.news != self._news:
            self._news = progress.news
            self._console.print(f"{progress.seconds:5.1f} s  {progress.news}")
        if time.monotonic() - self._said_at >= PLAIN_EVERY_SECONDS:
            self._said_at = time.monotonic()
            waiting = sum(view.waiting_manual + view.waiting_later for view in progress.lines)
            running = sum(view.running for view in progress.lines)
            self._console.print(
                f"{progress.seconds:5.1f} s  stored {sum(progress.stored.values())} of "
                f"{sum(progress.put.values())}, dead {sum(progress.dead.values())}, "
                f"waiting {waiting}, running {running}"
            )


def introduction() -> str:
    """What is about to be shown, and how to read it."""
    notes = "; ".join(f"{each.slug} {each.note}" for each in COURIERS if each.note)
    posted = " and ".join(sorted(POSTED))
    return (
        f"{len(list(requests())) + 1} requests for {len(COURIERS)} made-up couriers go through a "
        f"real beanstalkd, Redis and MongoDB on free ports of this machine. A courier may see at "
        f"most {CONCURRENT} calls at once and {PER_SECOND} starts in any second; what is over that "
        f"waits in Redis. {notes}. After {KILL_AFTER_SECONDS:.0f} s one of {PROCESSES} worker "
        f"processes is killed, and {SLOW}'s requests are put. The requests for {posted} are posted "
        f"over HTTP, the others put on the tube. A receiver hears of each parcel of {HOOKED} by a "
        "webhook. It takes half a minute and ends with a proof; Ctrl-C stops all.\n"
        f"To be short, a call may take {CALL_TIMEOUT_SECONDS} s ({SLOW}: {SLOW_TIMEOUT_SECONDS}) "
        "and a lease lasts twice as long (30 and 60 in config.toml).\n\nStarting the servers ..."
    )


def servers(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Where each server listens, and which program it is."""
    table = Table.grid(padding=(0, 2), pad_edge=True)
    for server in found.values():
        address = f"127.0.0.1:{server['port']}"
        table.add_row(address, server.get("backing", "the made-up couriers"))
    return table


def pages(url: str, password: str) -> str:
    """Where the pages are, and who may look."""
    return f"Look at it: {url}/ as {USER}, password {password}"


def live(progress: Progress) -> Group:
    """The table of all couriers, how to read it, and what happened last."""
    return Group(_table(progress), LEGEND, Text(progress.news, style="bold yellow"))


def _table(progress: Progress) -> Table:
    table = _undrawn(f"{progress.seconds:.0f} s")
    table.add_column("courier")
    for name in ("parcels", "stored", "dead", "waiting", "running", "starts/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column()
    views = {view.line: view for view in progress.lines}
    for courier in COURIERS:
        slug = courier.slug
        view = views[Line(slug)]
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
            ProgressBar(total=max(put, 1), completed=stored + dead, width=16),
        )
    return table


def results(documents: Iterable[Mapping[str, Any]], dead: Iterable[Mapping[str, Any]]) -> Table:
    """Some of what MongoDB holds now, and what was set aside."""
    table = _undrawn("Read back from MongoDB, some of bucket.tracking and bucket.dead")
    table.add_column("parcel", no_wrap=True)
    table.add_column("tag", no_wrap=True)
    table.add_column("newest checkpoint, or the reason", overflow="fold")
    for document in documents:
        newest = document["checkpoints"][-1] if document["checkpoints"] else None
        told = f"{newest['checkpoint_time'][:10]} {newest['message']}" if newest else ""
        table.add_row(f"{document['slug']}:{document['tracking_number']}", document["tag"], told)
    for letter in dead:
        number = letter["number"]
        name = f"{letter['slug']}:{number}" if number else f"job {letter['job']}"
        table.add_row(name, "[red]dead[/red]", f"{letter['reason']}: {letter['detail']}")
    return table


def webhook(arrived: Mapping[str, Any], secret: str) -> Table:
    """A webhook as its receiver got it, and whether its signature is good."""
    table = _undrawn(
        f"The first of the webhooks that arrived at the receiver of {HOOKED}'s parcels"
    )
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        table.add_row(name, arrived["headers"][name])
    good = "[green]valid[/green]" if is_genuine(arrived, secret) else "[red]WRONG[/red]"
    table.add_row("the signature is", good)
    table.add_row("of parcel", parcel_of(arrived))
    return table


def proof(figures: Iterable[Figure]) -> Table:
    """The figures, and whether each is what was promised."""
    table = _undrawn("Proof, from what the couriers saw and the producer put")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("promised", justify="right")
    table.add_column()
    for figure in figures:
        mark = "[green]ok[/green]" if figure.kept else "[bold red]WRONG[/bold red]"
        table.add_row(figure.name, figure.value, figure.promised, mark if figure.promised else "")
    return table


def explanation(evidence: Evidence) -> str:
    """Why the figures are what they are."""
    parcels, calls = len(set(evidence.put)), sum(each["calls"] for each in evidence.site.values())
    return (
        f"\nWhy {len(evidence.put) + 1}, {parcels} and {parcels - 1}: one request is malformed, "
        f"and {COPIES} are for one number and share a call, which leaves {parcels} parcels; "
        f"{FAILING[0]} fails for one of them, so {parcels - 1} are answered.\n"
        f"Why {calls} calls: usps is asked for several numbers in one, and what the killed process "
        "had in flight is asked again. The places of these calls stay taken until their leases "
        f"end, {LEASE_SECONDS} s after they began, as the couriers may still be at work on them: "
        "so no courier sees more calls at once than it allows, whatever dies."
    )


def _undrawn(title: str) -> Table:
    """A table without lines, so that 80 columns hold it."""
    return Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 1),
    )
