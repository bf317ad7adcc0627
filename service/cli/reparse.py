"""`reparse`: answers that could not be read are read again, after a courier's module was fixed."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict

from service.cli.exit_codes import Exit
from service.cli.output import moment, say, say_json, table
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.reparse import READ, Reading, readings


def run(options: argparse.Namespace) -> int:
    """Read all that is kept, or one courier's; 1 when some of it stays unread."""
    config = loaded(options).config
    couriers = Catalogue(config)
    slug = couriers.resolve(options.slug)[0] if options.slug else None
    read = readings(config, couriers, slug, dry=options.dry_run)
    if options.json:
        for reading in read:
            say_json(asdict(reading))
    else:
        _print(read, dry=options.dry_run)
    return Exit.DONE if all(reading.outcome == READ for reading in read) else Exit.NEGATIVE


def _print(read: list[Reading], *, dry: bool) -> None:
    if read:
        rows = [
            (one.slug, one.number, moment(one.at), one.outcome, one.detail[:60]) for one in read
        ]
        table(("courier", "number", "at", "outcome", "detail"), rows)
        say("")
    counts = Counter(reading.outcome for reading in read)
    told = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items()))
    say(f"{len(read)} kept answers ({told or 'none'}){'; nothing was changed' if dry else ''}")
