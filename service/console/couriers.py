"""`detect` and `reparse`: what couriers' modules say of numbers, and of answers that are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from service.console import settings
from service.console.arguments import Exit, Options, Parser, add_json, named
from service.console.output import moment, say, say_json, table
from service.operator import catalogue, reparse

DETAIL_SHOWN = 60
"""Characters of a detail in the table."""


def detect_arguments(parser: Parser) -> None:
    """Add the arguments of `detect`."""
    parser.add_argument("number", metavar="NUMBER", help="a tracking number")
    add_json(parser)


def reparse_arguments(parser: Parser) -> None:
    """Add the arguments of `reparse`."""
    parser.add_argument("--slug", type=named, help="only answers of this courier")
    parser.add_argument("--dry-run", action="store_true", help="show the outcome, change nothing")
    add_json(parser)


def run_detect(options: Options) -> int:
    """List the couriers that may have a number, likeliest first; 1 when none can be asked."""
    config = settings.loaded(options).config
    found = catalogue.Catalogue(config).candidates(options.number)
    if options.json:
        for rank, each in enumerate(found, 1):
            why = each.sign.name.lower()
            say_json({"rank": rank, "slug": each.slug, "name": each.name, "why": why})
    elif found:
        rows = [(each.slug, each.name, each.meaning) for each in found]
        table(("courier", "name", "why"), rows)
    else:
        say("No courier's numbers look like this.")
    is_served = any(each.sign is not catalogue.Sign.NO_MODULE for each in found)
    return Exit.DONE if is_served else Exit.NEGATIVE


def run_reparse(options: Options) -> int:
    """Read all answers that are kept, or one courier's; 1 when some of them stay unread."""
    config = settings.loaded(options).config
    couriers = catalogue.Catalogue(config)
    slug = couriers.resolve(options.slug)[0] if options.slug else None
    read = reparse.readings(config, couriers, slug, dry=options.dry_run)
    if options.json:
        for reading in read:
            say_json(asdict(reading))
    else:
        _print(read, dry=options.dry_run)
    is_read = all(reading.outcome == reparse.READ for reading in read)
    return Exit.DONE if is_read else Exit.NEGATIVE


def _print(read: Sequence[reparse.Reading], *, dry: bool) -> None:
    if read:
        rows = [
            (each.slug, each.number, moment(each.at), each.outcome, each.detail[:DETAIL_SHOWN])
            for each in read
        ]
        table(("courier", "number", "at", "outcome", "detail"), rows)
        say("")
    counts = Counter(reading.outcome for reading in read)
    words = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items()))
    say(f"{len(read)} kept answers ({words or 'none'}){'; nothing was changed' if dry else ''}")
