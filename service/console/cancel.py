"""`cancel`: requests that wait, of numbers, of couriers or with one id, end as CANCELLED."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence

from service.config import schema
from service.console import drawing, rows, settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_json,
    add_parcels,
    aged,
    named,
)
from service.console.output import agreed, note, say, span, tell
from service.operator import cancel, catalogue
from tracking.errors import MalformedJob
from tracking.request import Origin, Slug, parse_slug

NOT_REACHED = "jobs that no worker has taken from the tubes yet are not reached; cancel again later"


def cancel_arguments(parser: Parser) -> None:
    """Add the arguments of `cancel`."""
    add_parcels(parser, alone="; alone: cancel all that waits for this courier")
    parser.add_argument("--id", type=named, help="cancel only the request with this id")
    parser.add_argument(
        "--older-than",
        type=aged,
        metavar="DURATION",
        help="of all that waits, for --slug or for any courier, only what came so long ago or "
        "before, like 90s, 15m, 2h or 3d",
    )
    parser.add_argument(
        "--origin", choices=("MANUAL", "AUTOMATIC"), help="the same: only requests of this origin"
    )
    add_json(parser)


def run_cancel(options: Options) -> int:
    """Cancel; 1 when not all of it was cancelled, 2 when the one id is of another parcel."""
    config = settings.loaded(options).config
    couriers = catalogue.Catalogue(config)
    has_rows = bool(options.csv or options.slug_and_numbers)
    which = cancel.CancelFilter(options.older_than, options.origin and Origin(options.origin))
    _check(options, which, has_rows=has_rows)
    if options.id and not has_rows and not options.slug:
        return asyncio.run(_cancel_id(config, options))
    if not has_rows:
        return asyncio.run(_cancel_lines(config, couriers, which, options))
    options.origin = None  # of rows
    targets = list(_targets(options, couriers))
    question = f"Cancel what waits for {len(targets)} rows of {options.csv}?"
    if not agreed(question, yes=options.yes or not options.csv):
        return Exit.NEGATIVE
    return asyncio.run(_cancel_each(config, targets, options))


def _check(options: Options, which: cancel.CancelFilter, *, has_rows: bool) -> None:
    numbers = len(options.slug_and_numbers) - (0 if options.slug else 1)
    if which != cancel.EVERYTHING and (has_rows or options.id):
        wanted = "all that waits for a courier (--slug SLUG), or for any"
        raise UsageError(
            f"--older-than and --origin choose of {wanted}; name no numbers beside them"
        )
    if not has_rows and not options.slug and not options.id and which == cancel.EVERYTHING:
        raise UsageError(
            "name what to cancel: SLUG NUMBER..., --id ID, --csv FILE, --slug SLUG for all that "
            "waits for it, or --older-than and --origin"
        )
    if has_rows and not options.csv and numbers < 1:
        raise UsageError("name what to cancel: SLUG NUMBER..., --csv FILE, or --slug SLUG for all")
    if options.id and (
        options.csv or (has_rows and numbers != 1) or (options.slug and not has_rows)
    ):
        raise UsageError("--id names one request; for several, use a CSV file with a column id")


async def _cancel_id(config: schema.Config, options: Options) -> int:
    try:
        target = await cancel.target_of(config, options.id)
    except cancel.NotWaiting as error:
        note(str(error))
        return Exit.NEGATIVE
    return await _cancel_each(config, [target], options)


def _targets(options: Options, couriers: catalogue.Catalogue) -> Iterator[cancel.CancelTarget]:
    for row in rows.read_rows(options):
        try:
            named = couriers.parcel(row.texts.get("slug", ""), row.texts.get("number", ""))
        except MalformedJob as error:
            raise UsageError(f"{row.where}: {error.detail}; nothing was cancelled") from error
        yield cancel.CancelTarget(*named, row.texts.get("id", ""))


async def _cancel_each(
    config: schema.Config, targets: Sequence[cancel.CancelTarget], options: Options
) -> int:
    tally = cancel.Tally()
    try:
        with drawing.Bar(len(targets)) as bar:
            async with cancel.canceller_of(config) as canceller:
                async for target, came in canceller.cancel_many(targets):
                    tally.add(came)
                    bar.count(sys.stdout, _line(target, came, as_json=options.json))
    finally:
        # Also when it was interrupted, or Redis went away.
        if len(targets) > 1 and not options.json:
            say(f"cancelled {tally.requests} requests, in {tally.numbers} of {len(targets)} rows")
    if len(targets) == 1 and came.kept is cancel.NotCancelled.ELSEWHERE:
        return Exit.WRONG
    return Exit.DONE if tally.numbers == len(targets) else Exit.NEGATIVE


def _line(target: cancel.CancelTarget, came: cancel.Cancelled, *, as_json: bool) -> str:
    if not as_json:
        return f"{_worded(target, came)}\n"
    line = {"slug": target.slug, "number": target.number, "cancelled": came.operations}
    named = {"id": target.operation} if target.operation else {}
    kept = {"kept": came.kept.value, "detail": came.detail} if came.kept else {}
    return json.dumps(line | named | kept) + "\n"


def _worded(target: cancel.CancelTarget, came: cancel.Cancelled) -> str:
    """Say what came of it and, when nothing did, why and what to do."""
    parcel = f"{target.slug} {target.number}"
    identity, detail = target.operation, came.detail
    match came.kept:
        case cancel.NotCancelled.ELSEWHERE:
            wrong = f"{identity} is not a request for {parcel}, so nothing was cancelled"
            return f"{wrong}; write: cancel {detail} --id {identity}"
        case cancel.NotCancelled.RUNNING:
            return f"{identity} is with the courier now; a call that runs is not cut off"
        case cancel.NotCancelled.ENDED:
            return f"{identity} has already ended: {detail}"
        case cancel.NotCancelled.UNKNOWN:
            unknown = f"no request with the id {identity} waits for {parcel}; check the id, or"
            return f"{unknown} cancel again once a worker has taken the job from the tube"
    if came.operations:
        return f"cancelled {target.operation or came.operations} for {parcel}"
    return f"nothing waits for {parcel}; a call that runs is not cut off"


async def _cancel_lines(
    config: schema.Config,
    couriers: catalogue.Catalogue,
    which: cancel.CancelFilter,
    options: Options,
) -> int:
    """Cancel all that waits, or what is meant of it, for one courier or for all."""
    total = 0
    async with cancel.canceller_of(config) as canceller:
        slugs = await _slugs(canceller, couriers, options)
        waiting = {slug: await canceller.waiting(slug) for slug in slugs}
        # What waits behind a call that runs is not counted, and ends as well.
        if not any(waiting.values()) and not {*slugs} & {*await canceller.couriers()}:
            return _nothing_waits(slugs, as_json=options.json)
        of_whom = options.slug or f"{len(slugs)} couriers"
        most = "" if which == cancel.EVERYTHING else "up to "
        numbers = f"{most}{sum(waiting.values())} numbers"
        question = f"Cancel {_chosen(which)} for {of_whom}: {numbers}?"
        if not agreed(question, yes=options.yes):
            return Exit.NEGATIVE
        for slug in slugs:
            tally = cancel.Tally()
            try:
                with drawing.Bar(waiting[slug]) as bar:
                    async for _, came in cancel.cancel_line(canceller, slug, which):
                        tally.add(came)
                        bar.count(sys.stdout, "")
            finally:
                _sum_up(slug, tally, as_json=options.json)
            total += tally.requests
    if not options.json:
        say(NOT_REACHED)
    return Exit.DONE if total else Exit.NEGATIVE


def _nothing_waits(slugs: Sequence[Slug], *, as_json: bool) -> int:
    for slug in slugs:
        _sum_up(slug, cancel.Tally(), as_json=as_json)
    if not as_json:
        if not slugs:
            say("nothing waits for any courier")
        say(NOT_REACHED)
    return Exit.NEGATIVE


async def _slugs(
    canceller: cancel.Canceller, couriers: catalogue.Catalogue, options: Options
) -> list[Slug]:
    if not options.slug:
        return await canceller.couriers()
    try:
        return [couriers.resolve(options.slug)[0]]
    except MalformedJob:
        # It may not be configured any more: whatever waits for it can be ended all the same.
        slug = parse_slug(options.slug)
        if not await canceller.waiting(slug):
            raise
        return [slug]


def _chosen(which: cancel.CancelFilter) -> str:
    if which == cancel.EVERYTHING:
        return "all that waits"
    age = "" if which.age is None else f" that came {span(which.age)} ago or before"
    return f"every {f'{which.origin} ' if which.origin else ''}request{age}"


def _sum_up(slug: Slug, tally: cancel.Tally, *, as_json: bool) -> None:
    members = {"slug": slug, "numbers": tally.numbers, "cancelled": tally.requests}
    words = f"cancelled {tally.requests} requests for {tally.numbers} numbers of {slug}"
    tell(members, words, as_json=as_json)
