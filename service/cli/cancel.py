"""`cancel`: what waits for numbers or for couriers, or one request, ends as CANCELLED."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.cli.exit_codes import Exit, UsageError
from service.cli.output import agreed, say, say_json, span
from service.cli.progress_bar import Bar
from service.cli.rows import rows
from service.cli.settings import loaded
from service.client.cancel import (
    CancelFilter,
    Cancelled,
    Canceller,
    CancelTarget,
    NotCancelled,
    canceller_of,
)
from service.client.catalogue import Catalogue
from service.client.look import operation_of
from service.config.schema import Config
from tracking.errors import MalformedJob
from tracking.request import Number, Origin, Slug, parse_slug

EVERYTHING = CancelFilter()

NOT_REACHED = "jobs that no worker has taken from the tubes yet are not reached; cancel again later"

_KEPT = {
    NotCancelled.ELSEWHERE: "{id} is not a request for {parcel}, so nothing was cancelled; "
    "write: cancel {detail} --id {id}",
    NotCancelled.RUNNING: "{id} is with the courier now; a call that runs is not cut off",
    NotCancelled.ENDED: "{id} has already ended: {detail}",
    NotCancelled.UNKNOWN: "no request with the id {id} waits for {parcel}; check the id, or cancel "
    "again once a worker has taken the job from the tube",
}


@dataclass(slots=True)
class Tally:
    """What was cancelled so far, also when the rest is interrupted."""

    requests: int = 0
    numbers: int = 0

    def add(self, came: Cancelled) -> None:
        """Count what came of one number."""
        self.requests += came.operations
        self.numbers += came.operations > 0


def run(options: argparse.Namespace) -> int:
    """Cancel; 1 when not all of it was cancelled, 2 when the one id is of another parcel."""
    setting = loaded(options)
    couriers = Catalogue(setting.config)
    named = bool(options.csv or options.slug_and_numbers)
    which = CancelFilter(options.older_than, options.origin and Origin(options.origin))
    _check(options, which, named=named)
    if options.id and not named and not options.slug:
        return asyncio.run(_by_id(setting.config, options))
    if not named:
        return asyncio.run(_couriers(setting.config, couriers, which, options))
    options.origin = None  # of rows
    wanted = list(_wanted(options, couriers))
    question = f"Cancel what waits for {len(wanted)} rows of {options.csv}?"
    if not agreed(question, yes=options.yes or not options.csv):
        return Exit.NEGATIVE
    return asyncio.run(_numbers(setting.config, wanted, options))


def _check(options: argparse.Namespace, which: CancelFilter, *, named: bool) -> None:
    numbers = len(options.slug_and_numbers) - (0 if options.slug else 1)
    if which != EVERYTHING and (named or options.id):
        wanted = "all that waits for a courier (--slug SLUG), or for any"
        raise UsageError(
            f"--older-than and --origin choose of {wanted}; name no numbers beside them"
        )
    if not named and not options.slug and not options.id and which == EVERYTHING:
        raise UsageError(
            "name what to cancel: SLUG NUMBER..., --id ID, --csv FILE, --slug SLUG for all that "
            "waits for it, or --older-than and --origin"
        )
    if named and not options.csv and numbers < 1:
        raise UsageError("name what to cancel: SLUG NUMBER..., --csv FILE, or --slug SLUG for all")
    if options.id and (options.csv or (named and numbers != 1) or (options.slug and not named)):
        raise UsageError("--id names one request; for several, use a CSV file with a column id")


async def _by_id(config: Config, options: argparse.Namespace) -> int:
    """Find the parcel of an id, and cancel that one request."""
    found = await operation_of(config, options.id)
    parcel = (found.operation or {}).get("tracking")
    if found.dead:
        sys.stderr.write(f"worker.py: {options.id} waits no more: {found.dead['detail']}\n")
        return Exit.NEGATIVE
    if not parcel:
        sys.stderr.write(
            f"worker.py: no request with the id {options.id} is known; check the id, or cancel "
            "again once a worker has taken the job from the tube\n"
        )
        return Exit.NEGATIVE
    slug, _, number = parcel.partition(":")
    return await _numbers(config, [CancelTarget(Slug(slug), Number(number), options.id)], options)


def _wanted(options: argparse.Namespace, couriers: Catalogue) -> Iterator[CancelTarget]:
    for row in rows(options):
        try:
            named = couriers.parcel(row.texts.get("slug", ""), row.texts.get("number", ""))
        except MalformedJob as error:
            raise UsageError(f"{row.where}: {error.detail}; nothing was cancelled") from error
        yield CancelTarget(*named, row.texts.get("id", ""))


async def _numbers(
    config: Config, wanted: Sequence[CancelTarget], options: argparse.Namespace
) -> int:
    tally = Tally()
    try:
        with Bar(len(wanted)) as bar:
            async with canceller_of(config) as canceller:
                async for one, came in canceller.cancel_many(wanted):
                    tally.add(came)
                    bar.count(sys.stdout, _line(one, came, as_json=options.json))
    finally:
        # Also when it was interrupted, or Redis went away.
        if len(wanted) > 1 and not options.json:
            say(f"cancelled {tally.requests} requests, in {tally.numbers} of {len(wanted)} rows")
    if len(wanted) == 1 and came.kept is NotCancelled.ELSEWHERE:
        return Exit.WRONG
    return Exit.DONE if tally.numbers == len(wanted) else Exit.NEGATIVE


def _line(one: CancelTarget, came: Cancelled, *, as_json: bool) -> str:
    if not as_json:
        return f"{_told(one, came)}\n"
    line = {"slug": one.slug, "number": one.number, "cancelled": came.operations}
    named = {"id": one.operation} if one.operation else {}
    kept = {"kept": came.kept.value, "detail": came.detail} if came.kept else {}
    return json.dumps(line | named | kept) + "\n"


def _told(one: CancelTarget, came: Cancelled) -> str:
    """Say what came of it and, when nothing did, why and what to do."""
    parcel = f"{one.slug} {one.number}"
    if came.kept:
        return _KEPT[came.kept].format(id=one.operation, parcel=parcel, detail=came.detail)
    if came.operations:
        return f"cancelled {one.operation or came.operations} for {parcel}"
    return f"nothing waits for {parcel}; a call that runs is not cut off"


async def _couriers(
    config: Config, couriers: Catalogue, which: CancelFilter, options: argparse.Namespace
) -> int:
    """Cancel all that waits, or what is meant of it, for one courier or for all."""
    total = 0
    async with canceller_of(config) as canceller:
        slugs = await _slugs(canceller, couriers, options)
        waiting = {slug: await canceller.waiting(slug) for slug in slugs}
        # What waits behind a call that runs is not counted, and ends as well.
        if not any(waiting.values()) and not {*slugs} & {*await canceller.couriers()}:
            return _nothing_waits(slugs, as_json=options.json)
        of_whom = options.slug or f"{len(slugs)} couriers"
        most = "" if which == EVERYTHING else "up to "
        numbers = f"{most}{sum(waiting.values())} numbers"
        question = f"Cancel {_worded(which)} for {of_whom}: {numbers}?"
        if not agreed(question, yes=options.yes):
            return Exit.NEGATIVE
        for slug in slugs:
            tally = Tally()
            ends = canceller.cancel_courier(slug)
            if which != EVERYTHING:
                ends = canceller.cancel_where(slug, which)
            try:
                with Bar(waiting[slug]) as bar:
                    async for _, came in ends:
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
        _sum_up(slug, Tally(), as_json=as_json)
    if not as_json:
        if not slugs:
            say("nothing waits for any courier")
        say(NOT_REACHED)
    return Exit.NEGATIVE


async def _slugs(
    canceller: Canceller, couriers: Catalogue, options: argparse.Namespace
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


def _worded(which: CancelFilter) -> str:
    if which == EVERYTHING:
        return "all that waits"
    age = "" if which.age is None else f" that came {span(which.age)} ago or before"
    return f"every {f'{which.origin} ' if which.origin else ''}request{age}"


def _sum_up(slug: Slug, tally: Tally, *, as_json: bool) -> None:
    if as_json:
        say_json({"slug": slug, "numbers": tally.numbers, "cancelled": tally.requests})
        return
    say(f"cancelled {tally.requests} requests for {tally.numbers} numbers of {slug}")
