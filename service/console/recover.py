"""`recover`: put again what a door had spooled, or what waited in a Redis that was emptied."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from service import NAME
from service.console import drawing, rows, settings
from service.console.arguments import Exit, Options, Parser, UsageError, add_json
from service.console.output import note
from service.operator import catalogue, mirrored, producer, put, spool
from tracking.errors import TubesDown

TOGETHER = 32
"""Requests put in one go: those to relays have up to 1.4 MB each."""

Found: TypeAlias = "put.Sendable | spool.Relayed"


def recover_arguments(parser: Parser) -> None:
    """Add the arguments of `recover`."""
    text = "saved output; default: standard input"
    parser.add_argument("files", nargs="*", metavar="FILE", help=text)
    parser.add_argument(
        "--redis",
        action="store_const",
        const=_recover_redis,
        dest="run",
        help="what waited in a Redis that was emptied, as MongoDB has it ([redis] mirror)",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the requests, put none")
    add_json(parser)


def run_recover(options: Options) -> int:
    """Put all spooled requests; 0 when every line could be read and every request is put."""
    config = settings.loaded(options).config
    if not options.files and sys.stdin.isatty():
        raise UsageError("name the FILE with the door's saved output, or pipe it in")
    found = _found(options.files or ["-"], catalogue.Catalogue(config))
    good = bad = 0
    with producer.Producer(config.beanstalkd.servers) as to:
        for batch in producer.batches(_once(found), TOGETHER):
            for each in batch:
                if isinstance(each, put.Bad):
                    bad += 1
                    note(f"{each}, and was left out")
            some = [each for each in batch if not isinstance(each, put.Bad)]
            good += len(some)
            if options.dry_run:
                sys.stdout.writelines(_line(one, None, as_json=options.json) for one in some)
            else:
                _put(to, some, as_json=options.json)
    what = (
        "would be put" if options.dry_run else "put; those that were put before are not asked twice"
    )
    note(f"{good} requests {what}" if good or bad else "no spooled request stands there")
    return Exit.NEGATIVE if bad else Exit.DONE


def _once(found: Iterable[Found | put.Bad]) -> Iterator[Found | put.Bad]:
    """Leave out a request to a relay that stood there before: it was saved at each try."""
    ids = set[str]()
    for each in found:
        if not isinstance(each, spool.Relayed):
            yield each
        elif each.id not in ids:
            ids.add(each.id)
            yield each


def _found(names: Iterable[str], couriers: catalogue.Catalogue) -> Iterator[Found | put.Bad]:
    for name in names:
        if name == "-":
            yield from spool.saved_in(sys.stdin.buffer, "standard input", couriers)
            continue
        try:
            with Path(name).open("rb") as file:
                yield from spool.saved_in(file, name, couriers)
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error


def _put(to: producer.Producer, batch: Sequence[Found], *, as_json: bool) -> None:
    requests = [each for each in batch if isinstance(each, put.Sendable)]
    relayed = [each for each in batch if isinstance(each, spool.Relayed)]
    _put_on(to, producer.REQUESTS_TUBE, requests, as_json=as_json)
    _put_on(to, producer.WEBHOOKS_TUBE, relayed, as_json=as_json)


def _put_on(to: producer.Producer, tube: str, some: Sequence[Found], *, as_json: bool) -> None:
    failed: producer.NotPut | None = None
    try:
        bodies = [each.body for each in some]
        placed: Sequence[producer.JobRef | None] = to.put(bodies, producer.PutOptions(), tube)
    except producer.NotPut as error:
        failed, placed = error, error.placed
    for each, place in zip(some, placed, strict=True):
        if place:
            sys.stdout.write(_line(each, place, as_json=as_json))
    if failed:
        what = f"not all were put, so put all of them again: {failed.message}"
        raise TubesDown(what, failed.fix) from failed


def _line(each: Found, place: producer.JobRef | None, *, as_json: bool) -> str:
    if isinstance(each, put.Sendable):
        return rows.placed_line(each, place, as_json=as_json)
    if as_json:
        told = {"id": each.id, "label": each.label}
        return json.dumps(told | (place._asdict() if place else {})) + "\n"
    return f"{each.id}  {each.label}\n"


def _recover_redis(options: Options) -> int:
    """Put what MongoDB has as open and Redis does not know; 1 where some could not be put."""
    if options.files:
        raise UsageError("--redis reads no FILE: leave one of both out")
    config = settings.loaded(options).config
    done = bad = ended = 0
    with (
        mirrored.recovery_of(config, dry_run=options.dry_run) as recovery,
        drawing.Bar(recovery.total) as bar,
    ):
        for each in recovery.run():
            match each:
                case put.Bad():
                    bad += 1
                    bar.count(sys.stderr, f"{NAME}: {each}, and was left out\n")
                case mirrored.Recovered(kept, place):
                    done += 1
                    bar.count(sys.stdout, rows.placed_line(kept, place, as_json=options.json))
                case mirrored.Standing.ENDED:
                    ended += 1
                    bar.count(sys.stdout, "")
                case mirrored.Standing.WAITS:
                    bar.count(sys.stdout, "")
    total = recovery.total
    how = "would be" if options.dry_run else "were"
    note(f"{done} of {total} open requests {how} put, {ended} had ended")
    if not total and not config.redis.mirror:
        note("[redis] mirror is off: nothing is written down of what waits")
    return Exit.NEGATIVE if bad else Exit.DONE
