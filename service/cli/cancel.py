"""`cancel`: what waits for numbers, or for a courier, ends as CANCELLED."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.cli.bar import Bar
from service.cli.exit_codes import Exit, UsageError
from service.cli.output import agreed, say, say_json
from service.cli.rows import rows
from service.cli.settings import loaded
from service.client.cancel import Cancelled, Kept, Wanted, canceller_of
from service.client.catalogue import Catalogue
from service.config.schema import Config
from tracking.errors import MalformedJob
from tracking.request import Slug, parse_slug

_KEPT = {
    Kept.ELSEWHERE: "{id} is not a request for {parcel}, so nothing was cancelled; "
    "write: cancel {detail} --id {id}",
    Kept.RUNNING: "{id} is with the courier now; a call that runs is not cut off",
    Kept.ENDED: "{id} has already ended: {detail}",
    Kept.UNKNOWN: "no request with the id {id} waits for {parcel}; check the id, or cancel again "
    "once a worker has taken the job from the tube",
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
    by_slug = bool(options.slug) and not options.csv and not options.slug_and_numbers
    _check(options, by_slug=by_slug)
    if by_slug:
        return asyncio.run(_courier(setting.config, couriers, options))
    wanted = list(_wanted(options, couriers))
    question = f"Cancel what waits for {len(wanted)} rows of {options.csv}?"
    if not agreed(question, yes=options.yes or not options.csv):
        return Exit.NEGATIVE
    return asyncio.run(_numbers(setting.config, wanted, options))


def _check(options: argparse.Namespace, *, by_slug: bool) -> None:
    named = len(options.slug_and_numbers) - (0 if options.slug else 1)
    if not (options.csv or by_slug) and named < 1:
        raise UsageError("name what to cancel: SLUG NUMBER..., --csv FILE, or --slug SLUG for all")
    if options.id and (options.csv or named != 1):
        raise UsageError("--id names one request; for several, use a CSV file with a column id")


def _wanted(options: argparse.Namespace, couriers: Catalogue) -> Iterator[Wanted]:
    for row in rows(options):
        try:
            named = couriers.parcel(row.texts.get("slug", ""), row.texts.get("number", ""))
        except MalformedJob as error:
            raise UsageError(f"{row.where}: {error.detail}; nothing was cancelled") from error
        yield Wanted(*named, row.texts.get("id", ""))


async def _numbers(config: Config, wanted: Sequence[Wanted], options: argparse.Namespace) -> int:
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
    if len(wanted) == 1 and came.kept is Kept.ELSEWHERE:
        return Exit.WRONG
    return Exit.DONE if tally.numbers == len(wanted) else Exit.NEGATIVE


def _line(one: Wanted, came: Cancelled, *, as_json: bool) -> str:
    if not as_json:
        return f"{_told(one, came)}\n"
    line = {"slug": one.slug, "number": one.number, "cancelled": came.operations}
    named = {"id": one.operation} if one.operation else {}
    kept = {"kept": came.kept.value, "detail": came.detail} if came.kept else {}
    return json.dumps(line | named | kept) + "\n"


def _told(one: Wanted, came: Cancelled) -> str:
    """Say what came of it and, when nothing did, why and what to do."""
    parcel = f"{one.slug} {one.number}"
    if came.kept:
        return _KEPT[came.kept].format(id=one.operation, parcel=parcel, detail=came.detail)
    if came.operations:
        return f"cancelled {one.operation or came.operations} for {parcel}"
    return f"nothing waits for {parcel}; a call that runs is not cut off"


async def _courier(config: Config, couriers: Catalogue, options: argparse.Namespace) -> int:
    tally = Tally()
    async with canceller_of(config) as canceller:
        try:
            slug = couriers.resolve(options.slug)[0]
        except MalformedJob:
            # It may not be configured any more: whatever waits for it can be ended all the same.
            slug = parse_slug(options.slug)
            if not await canceller.waiting(slug):
                raise
        waiting = await canceller.waiting(slug)
        if not agreed(f"Cancel all that waits for {slug}: {waiting} numbers?", yes=options.yes):
            return Exit.NEGATIVE
        try:
            with Bar(waiting) as bar:
                async for _, came in canceller.cancel_courier(slug):
                    tally.add(came)
                    bar.count(sys.stdout, "")
        finally:
            _sum_up(slug, tally, as_json=options.json)
    return Exit.DONE if tally.requests else Exit.NEGATIVE


def _sum_up(slug: Slug, tally: Tally, *, as_json: bool) -> None:
    if as_json:
        say_json({"slug": slug, "numbers": tally.numbers, "cancelled": tally.requests})
        return
    say(f"cancelled {tally.requests} requests for {tally.numbers} numbers of {slug}")
    say("jobs that no worker has taken from the tubes yet are not reached; cancel again later")
