"""`resend`: requests that are dead or have ended are asked again, now, as new ones."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from service.cli import drawing, settings
from service.cli.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_json,
    add_yes,
    aged,
    named,
)
from service.cli.output import agreed, note, say, say_json, table
from service.client import catalogue, connections, dead, look, producer, resend
from service.config import schema
from tracking.errors import StoreError

SHOWN_MOST = 50

Line: TypeAlias = "Callable[[resend.ResendTarget, str | None], str]"
"""Words a request that was put again, with its new id; "" says nothing."""


def resend_arguments(parser: Parser) -> None:
    """Add the arguments of `resend`."""
    parser.add_argument("slug", type=named, nargs="?", metavar="SLUG", help="the courier")
    text = "what is dead of this number, or ended last"
    parser.add_argument("number", type=named, nargs="?", metavar="NUMBER", help=text)
    parser.add_argument("--id", type=named, help="the newest request with this id, dead or ended")
    text = "all that are dead with this reason; with SLUG: of it only"
    parser.add_argument("--reason", type=named, help=text)
    parser.add_argument(
        "--since",
        type=aged,
        metavar="DURATION",
        help="all that died in the last 15m, 2h or 3d; with SLUG or --reason: of these only",
    )
    parser.add_argument("--dry-run", action="store_true", help="list what is meant, put nothing")
    add_yes(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: Options) -> int:
    """Resend what is meant; 1 when that is nothing, or not all of it was put."""
    config = settings.loaded(options).config
    _check(options)
    with connections.collections_of(config) as stores:
        try:
            targets = _targets(options, config, stores)
        except resend.NotEnded as error:
            note(str(error))
            return Exit.NEGATIVE
        if not targets:
            say_nothing_fits(stores)
        if options.dry_run:
            _list(targets, as_json=options.json)
            return Exit.DONE if targets else Exit.NEGATIVE
        # What is named by its id or number is meant; how many a filter means, nobody knows before.
        is_named = bool(options.id or options.number)
        if targets and not agreed(f"Resend {counted(targets)}?", yes=options.yes or is_named):
            return Exit.NEGATIVE
        done, failed = resend_all(targets, config, stores, _json_line if options.json else _line)
    if options.json:
        say_json({"resent": done, "failed": failed})
    else:
        say(f"resent {done}, failed {failed}")
    return Exit.DONE if done and not failed else Exit.NEGATIVE


def resend_all(
    targets: Sequence[resend.ResendTarget],
    config: schema.Config,
    stores: connections.Collections,
    line: Line,
) -> tuple[int, int]:
    """Put each again; counts those that were put, and those that were not."""
    done, failed = 0, 0
    servers = config.beanstalkd.servers
    with producer.Producer(servers) as to, drawing.Bar(len(targets)) as bar:
        for each in targets:
            try:
                identity = resend.resend(each, stores, to)
            except (resend.NotResent, StoreError) as error:
                failed += 1
                name = each.record["_id"] if each.record else each.operation
                bar.count(sys.stderr, f"worker.py: {name}: {error}\n")
                continue
            done += 1
            bar.count(sys.stdout, line(each, identity))
    return done, failed


def say_nothing_fits(stores: connections.Collections) -> None:
    """Say that no record is meant, and which reasons there are."""
    reasons = ", ".join(
        f"{why}: {count}" for why, count in dead.count_by_reason(stores.dead).items()
    )
    there = f"there are {reasons}; `dead list` shows them" if reasons else "there are none"
    note(f"no dead request fits this; {there}")


def counted(requests: Sequence[object]) -> str:
    """Word how many."""
    return "1 request" if len(requests) == 1 else f"{len(requests)} requests"


def _check(options: Options) -> None:
    is_filter = bool(options.reason or options.since)
    if options.id and (options.slug or is_filter):
        raise UsageError("--id names one request; give nothing else beside it")
    if not (options.id or options.number or is_filter):
        raise UsageError(
            "say which: SLUG NUMBER, --id ID, or of the dead ones --reason REASON and --since 2h"
        )


def _targets(
    options: Options, config: schema.Config, stores: connections.Collections
) -> list[resend.ResendTarget]:
    """Find what is dead, or else what has ended. Raises NotEnded."""
    if options.id:
        return [_of_id(config, stores, options.id)]
    couriers = catalogue.Catalogue(config)
    slug = number = None
    if options.number:
        slug, number = couriers.parcel(options.slug, options.number)
    elif options.slug:
        slug, _ = couriers.resolve(options.slug)
    since = options.since and dt.datetime.now(dt.UTC) - dt.timedelta(seconds=options.since)
    wanted = dead.Filter(slug=slug, number=number, reason=options.reason, since=since or None)
    found = resend.dead_ones(stores, wanted)
    if found or not (slug and number) or options.reason or options.since:
        return found
    parcel = asyncio.run(look.parcel_of(config, slug, number))
    operations = look.with_archived(config, slug, number, parcel.operations)
    return [resend.newest_ended(f"{slug} {number}", operations)]


def _of_id(
    config: schema.Config, stores: connections.Collections, identity: str
) -> resend.ResendTarget:
    """Find the record of this id, or else the newest request that had it. Raises NotEnded."""
    found = dead.find(stores.dead, dead.Filter(operation=identity))
    if own := [each for each in found if each["_id"] == identity]:
        return resend.of_record(own[0])
    operation = asyncio.run(look.operation_of(config, identity)).operation
    return resend.newest_of(identity, operation, found)


def _list(targets: Sequence[resend.ResendTarget], *, as_json: bool) -> None:
    if as_json:
        for each in targets:
            say_json(_members(each))
        return
    rows = [
        [each.slug or "-", each.number or "-", each.operation or "-", each.why] for each in targets
    ]
    if rows:
        table(("courier", "number", "request", "why"), rows[:SHOWN_MOST])
        say("")
    more = f", the first {SHOWN_MOST} shown" if len(rows) > SHOWN_MOST else ""
    say(f"would resend {counted(targets)}{more}; nothing was put")


def _members(each: resend.ResendTarget) -> dict[str, str | None]:
    operation = each.operation or None
    return {"slug": each.slug, "number": each.number, "resend_of": operation, "why": each.why}


def _json_line(each: resend.ResendTarget, identity: str | None) -> str:
    return json.dumps({"id": identity, **_members(each)}) + "\n"


def _line(each: resend.ResendTarget, identity: str | None) -> str:
    name = f"{each.slug or '-'} {each.number or '-'}"
    return f"{name}: {identity or 'put as it was'} repeats {each.operation or 'it'} ({each.why})\n"
