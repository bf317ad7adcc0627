"""`put`: requests onto the tube `requests_flow`, and with `--wait` what became of them."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from service.cli.exit_codes import Exit, UsageError
from service.cli.progress_bar import Bar
from service.cli.rows import rows
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.producer import NotPut, Placed, Placing, Producer, batches
from service.client.put import Bad, Sendable, jobs_of_rows
from tracking.errors import TubesDown

_COMPLAINTS_MOST = 20
_LARGEST = 2**32 - 1
"""What beanstalkd reads as a number."""

TOGETHER = 128
"""Requests put in one go: Ctrl-C waits for them, so that it is known how many were put."""


def run(options: argparse.Namespace) -> int:
    """Put them; 0 when all were put (and with --wait: all succeeded)."""
    setting = loaded(options)
    _check(options)
    catalogue = Catalogue(setting.config)
    made = list(jobs_of_rows(rows(options), catalogue))
    good = [each for each in made if isinstance(each, Sendable)]
    bad = [each for each in made if isinstance(each, Bad)]
    _complain(bad, skipped=options.skip_bad)
    if (bad and not options.skip_bad) or not good:
        return Exit.WRONG
    _warn(good, catalogue)
    done = _put(good, setting.config.beanstalkd.servers, options)
    if done < len(good):
        _note(f"interrupted: {_how_to_go_on(good, done)}")
        return Exit.INTERRUPTED
    if options.wait is not None:
        # Brings the drivers of Redis and MongoDB, of which a put alone asks nothing.
        from service.cli.waiting import wait_for  # noqa: PLC0415 - see above

        _note(f"{done} put; to ask later what became of one: python worker.py show --id ID")
        code = asyncio.run(wait_for(good, setting.config, options.wait, as_json=options.json))
        return code or (Exit.NEGATIVE if bad else Exit.DONE)
    return Exit.NEGATIVE if bad else Exit.DONE


def _check(options: argparse.Namespace) -> None:
    if not 1 <= options.ttr <= _LARGEST:
        raise UsageError(f"--ttr must be between 1 and {_LARGEST} seconds")
    if not 0 <= options.priority <= _LARGEST:
        raise UsageError(f"--priority must be between 0 (first) and {_LARGEST} (last)")
    if options.id and (options.csv or len(options.slug_and_numbers) > (1 if options.slug else 2)):
        raise UsageError("--id names one request; for several, use a CSV file with a column id")


def _note(text: str) -> None:
    sys.stderr.write(f"worker.py: {text}\n")


def _complain(bad: Sequence[Bad], *, skipped: bool) -> None:
    for each in bad[:_COMPLAINTS_MOST]:
        _note(str(each))
    if len(bad) > _COMPLAINTS_MOST:
        _note(f"and {len(bad) - _COMPLAINTS_MOST} more")
    if bad:
        wrong = "1 request is wrong" if len(bad) == 1 else f"{len(bad)} requests are wrong"
        left = "and left out" if skipped else "and nothing was put: correct, or add --skip-bad"
        _note(f"{wrong} {left}")


def _warn(good: Iterable[Sendable], catalogue: Catalogue) -> None:
    """Say what is missing while there is somebody to read it; the requests wait for it."""
    for slug in dict.fromkeys(each.slug for each in good):
        if missing := catalogue.lacking(slug):
            _note(f"warning: {missing}. Until a worker has them, requests wait; a day at most")


def _put(good: Sequence[Sendable], servers: Sequence[str], options: argparse.Namespace) -> int:
    """Put all, or as many as there are when Ctrl-C is pressed; tells how many that were."""
    placing = Placing(priority=options.priority, ttr=options.ttr)
    done = 0
    with Producer(servers) as producer, between_puts() as interrupted, Bar(len(good)) as bar:
        for batch in batches(good, TOGETHER):
            failed: NotPut | None = None
            try:
                placed: Sequence[Placed | None] = producer.put([e.body for e in batch], placing)
            except NotPut as error:
                failed, placed = error, error.placed
            for each, place in zip(batch, placed, strict=True):
                if place:
                    bar.count(*_line(each, place, options))
            if failed:
                count = sum(place is not None for place in placed)
                done += placed.index(None)
                told = _how_to_go_on(good, done, count - placed.index(None))
                raise TubesDown(f"{told}; {failed.message}", failed.fix) from failed
            done += len(batch)
            if interrupted():
                break
    return done


def _how_to_go_on(good: Sequence[Sendable], done: int, behind: int = 0) -> str:
    """Say where to begin again; `behind`: so many after that one were put already."""
    told = f"{done + behind} of {len(good)} were put; put the rest with --from-row {good[done].row}"
    if behind:
        told += f", which puts {behind} of them again"
    if any(each.made_up for each in good):
        return told
    return f"{told}, or all once more: they have their own ids, so that none is asked twice"


@contextmanager
def between_puts() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait for the puts at hand, so that it is known how many were put.

    A second one ends it at once.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _line(each: Sendable, place: Placed, options: argparse.Namespace) -> tuple[TextIO, str]:
    """Tell where a request's line goes, and the line; it may be empty."""
    text = f"{each.id}  {each.slug} {each.number}\n"
    if options.wait is not None:
        # There the outcome is its line on standard output; a made-up id is printed before.
        return sys.stderr, text if each.made_up else ""
    if options.json:
        line = {"id": each.id, "slug": each.slug, "number": each.number}
        text = json.dumps(line | place._asdict()) + "\n"
    return sys.stdout, text
