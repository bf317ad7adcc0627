"""`put`: requests onto the tube `requests_flow`, and with `--wait` what became of them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import track

from service.cli.bodies import Bad, Sendable, sendables
from service.cli.catalogue import Catalogue
from service.cli.exits import Exit, UsageError
from service.cli.producer import Producer
from service.cli.rows import rows
from service.cli.settings import loaded
from service.cli.waiting import wait_for
from service.tubes.connection import Placing
from tracking.errors import TubesDown

MANY = 200
"""From so many requests on, a person would wonder whether anything happens."""

_COMPLAINTS_MOST = 20


def run(options: argparse.Namespace) -> int:
    """Put them; 0 when all were put (and with --wait: all succeeded)."""
    setting = loaded(options)
    _check(options)
    made = list(sendables(rows(options), Catalogue(setting)))
    good = [each for each in made if isinstance(each, Sendable)]
    bad = [each for each in made if isinstance(each, Bad)]
    _complain(bad, skipped=options.skip_bad)
    if (bad and not options.skip_bad) or not good:
        return Exit.WRONG
    # With --wait, the outcome is the line of each request.
    _put(good, setting.config.beanstalkd.servers, options, quiet=options.wait is not None)
    if options.wait is not None:
        code = asyncio.run(wait_for(good, setting.config, options.wait, as_json=options.json))
        return code or (Exit.NEGATIVE if bad else Exit.DONE)
    return Exit.NEGATIVE if bad else Exit.DONE


def _check(options: argparse.Namespace) -> None:
    if options.ttr < 1:
        raise UsageError("--ttr is at least 1 second")
    if not 0 <= options.priority < 2**32:
        raise UsageError("--priority is 0 (first) to 4294967295 (last)")
    if options.id and (options.csv or len(options.slug_and_numbers) > (1 if options.slug else 2)):
        raise UsageError("--id is of one request; for several use a CSV file with a column id")


def _complain(bad: Sequence[Bad], *, skipped: bool) -> None:
    for each in bad[:_COMPLAINTS_MOST]:
        sys.stderr.write(f"worker.py: {each}\n")
    if len(bad) > _COMPLAINTS_MOST:
        sys.stderr.write(f"worker.py: and {len(bad) - _COMPLAINTS_MOST} more\n")
    if bad:
        what = "skipped" if skipped else "wrong, so nothing was put; --skip-bad puts the others"
        sys.stderr.write(f"worker.py: {len(bad)} {what}\n")


def _put(
    good: Sequence[Sendable], servers: Sequence[str], options: argparse.Namespace, *, quiet: bool
) -> None:
    placing = Placing(priority=options.priority, ttr=options.ttr)
    console = Console(stderr=True)
    # Where the requests' own lines appear on the screen, they are the progress.
    lines_seen = sys.stdout.isatty() and not quiet
    hidden = lines_seen or not console.is_terminal or len(good) < MANY
    shown = track(good, "putting", console=console, disable=hidden)
    done = 0
    with Producer(servers) as producer:
        try:
            for each in shown:
                server, job = producer.put(each.body, placing)
                done += 1
                if not quiet:
                    _tell(each, server, job, as_json=options.json)
        except TubesDown as error:
            raise TubesDown(f"{done} of {len(good)} were put, then {error}") from error


def _tell(each: Sendable, server: str, job: int, *, as_json: bool) -> None:
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number}
        sys.stdout.write(json.dumps(line | {"server": server, "job": job}) + "\n")
    else:
        sys.stdout.write(f"{each.id}  {each.slug} {each.number}\n")
