"""`resend`: requests that are dead or have ended are asked again, now, as new ones."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import sys
from collections.abc import Callable, Sequence

from service.cli.exit_codes import Exit, UsageError
from service.cli.output import agreed, say, say_json, table
from service.cli.progress_bar import Bar
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.connections import Collections, collections_of
from service.client.dead import Filter, NotKicked, count_by_reason, find
from service.client.look import operation_of, parcel_of, with_archived
from service.client.producer import Producer
from service.client.resend import (
    Meant,
    NotEnded,
    dead_ones,
    newest_ended,
    newest_of,
    of_record,
    resend,
)
from service.config.schema import Config
from tracking.errors import StoreError

SHOWN_MOST = 50

Tell = Callable[[Meant, str | None], str]
"""Words a request that was put again, with its new id; "" says nothing."""


def run(options: argparse.Namespace) -> int:
    """Resend what is meant; 1 when that is nothing, or not all of it was put."""
    _check(options)
    config = loaded(options).config
    with collections_of(config) as stores:
        try:
            meant = _meant(options, config, stores)
        except NotEnded as error:
            sys.stderr.write(f"worker.py: {error}\n")
            return Exit.NEGATIVE
        if not meant:
            say_nothing_fits(stores)
        if options.dry_run:
            _list(meant, as_json=options.json)
            return Exit.DONE if meant else Exit.NEGATIVE
        # What is named by its id or number is meant; how many a filter means, nobody knows before.
        is_named = bool(options.id or options.number)
        if meant and not agreed(f"Resend {counted(meant)}?", yes=options.yes or is_named):
            return Exit.NEGATIVE
        done, failed = resend_all(meant, config, stores, _line if options.json else _words)
    if options.json:
        say_json({"resent": done, "failed": failed})
    else:
        say(f"resent {done}, failed {failed}")
    return Exit.DONE if done and not failed else Exit.NEGATIVE


def resend_all(
    meant: Sequence[Meant], config: Config, stores: Collections, tell: Tell
) -> tuple[int, int]:
    """Put each again; counts those that were put, and those that were not."""
    done, failed = 0, 0
    with Producer(config.beanstalkd.servers) as producer, Bar(len(meant)) as bar:
        for each in meant:
            try:
                identity = resend(each, stores, producer)
            except (NotKicked, StoreError) as error:
                failed += 1
                name = each.record["_id"] if each.record else each.operation
                bar.count(sys.stderr, f"worker.py: {name}: {error}\n")
                continue
            done += 1
            bar.count(sys.stdout, tell(each, identity))
    return done, failed


def say_nothing_fits(stores: Collections) -> None:
    """Say that no record is meant, and which reasons there are."""
    reasons = ", ".join(f"{why}: {count}" for why, count in count_by_reason(stores.dead).items())
    there = f"there are {reasons}; `dead list` shows them" if reasons else "there are none"
    sys.stderr.write(f"worker.py: no dead request fits this; {there}\n")


def counted(meant: Sequence[Meant]) -> str:
    """Word how many."""
    return "1 request" if len(meant) == 1 else f"{len(meant)} requests"


def _check(options: argparse.Namespace) -> None:
    is_filter = bool(options.reason or options.since)
    if options.id and (options.slug or is_filter):
        raise UsageError("--id names one request; give nothing else beside it")
    if not (options.id or options.number or is_filter):
        raise UsageError(
            "say which: SLUG NUMBER, --id ID, or of the dead ones --reason REASON and --since 2h"
        )


def _meant(options: argparse.Namespace, config: Config, stores: Collections) -> list[Meant]:
    """Find what is dead, or else what has ended. Raises NotEnded."""
    if options.id:
        return [_of_id(config, stores, options.id)]
    catalogue = Catalogue(config)
    slug = number = None
    if options.number:
        slug, number = catalogue.parcel(options.slug, options.number)
    elif options.slug:
        slug, _ = catalogue.resolve(options.slug)
    since = options.since and dt.datetime.now(dt.UTC) - dt.timedelta(seconds=options.since)
    wanted = Filter(slug=slug, number=number, reason=options.reason, since=since or None)
    found = dead_ones(stores, wanted)
    if found or not (slug and number) or options.reason or options.since:
        return found
    parcel = asyncio.run(parcel_of(config, slug, number))
    operations = with_archived(config, slug, number, parcel.operations)
    return [newest_ended(f"{slug} {number}", operations)]


def _of_id(config: Config, stores: Collections, identity: str) -> Meant:
    """Find the record of this id, or else the newest request that had it. Raises NotEnded."""
    found = find(stores.dead, Filter(operation=identity))
    if own := [each for each in found if each["_id"] == identity]:
        return of_record(own[0])
    return newest_of(identity, asyncio.run(operation_of(config, identity)).operation, found)


def _list(meant: Sequence[Meant], *, as_json: bool) -> None:
    if as_json:
        for each in meant:
            say_json(_members(each))
        return
    rows = [
        [each.slug or "-", each.number or "-", each.operation or "-", each.why] for each in meant
    ]
    if rows:
        table(("courier", "number", "request", "why"), rows[:SHOWN_MOST])
        say("")
    more = f", the first {SHOWN_MOST} shown" if len(rows) > SHOWN_MOST else ""
    say(f"would resend {counted(meant)}{more}; nothing was put")


def _members(each: Meant) -> dict[str, str | None]:
    operation = each.operation or None
    return {"slug": each.slug, "number": each.number, "resend_of": operation, "why": each.why}


def _line(each: Meant, identity: str | None) -> str:
    return json.dumps({"id": identity, **_members(each)}) + "\n"


def _words(each: Meant, identity: str | None) -> str:
    name = f"{each.slug or '-'} {each.number or '-'}"
    return f"{name}: {identity or 'put as it was'} repeats {each.operation or 'it'} ({each.why})\n"
