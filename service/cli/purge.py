"""`purge`: what was kept long enough goes now, with a bar on a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json
from service.cli.settings import loaded
from service.client.purge import Purged, purge


def run(options: argparse.Namespace) -> int:
    """Purge or count; 1 when a server could not be asked."""
    config = loaded(options).config
    with _bar() as progress:
        purged = purge(config, progress, dry=options.dry_run)
    if options.json:
        counts = {**purged.counts, "buried_jobs": purged.buried_jobs, "failed": purged.failed}
        say_json({"dry_run": options.dry_run, **counts})
    else:
        _print(purged, dry=options.dry_run)
    for why in purged.failed:
        sys.stderr.write(f"worker.py: {why}\n")
    return Exit.NEGATIVE if purged.failed else Exit.DONE


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as drawn:
        tasks: dict[str, TaskID] = {}

        def progress(kind: str, done: int, total: int) -> None:
            if kind not in tasks:
                tasks[kind] = drawn.add_task(kind, total=total)
            drawn.update(tasks[kind], completed=done)

        yield progress


def _print(purged: Purged, *, dry: bool) -> None:
    word = "old" if dry else "purged"
    for kind, count in purged.counts.items():
        say(f"{kind:<12} {count:>9,} {word}")
    if dry:
        say(f"{'buried jobs':<12} {purged.buried_jobs:>9,} in all; those that are old would go")
    else:
        say(f"{'buried jobs':<12} {purged.buried_jobs:>9,} deleted")
