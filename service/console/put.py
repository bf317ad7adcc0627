"""`put`: requests onto the tube `requests_flow`, and with `--wait` what became of them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from service import PROGRAM
from service.config import schema
from service.console import drawing, rows, settings, wording
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_csv,
    add_fields,
    add_json,
    from_one_on,
    named,
    seconds_of,
)
from service.console.output import note
from service.operator import catalogue, follow, look, producer, put
from tracking.errors import TubesDown
from tracking.operation import State

_COMPLAINTS_MOST = 20
_LARGEST = 2**32 - 1
"""What beanstalkd reads as a number."""

TOGETHER = 128
"""Requests put in one go: Ctrl-C waits for them, so that it is known how many were put."""


def put_arguments(parser: Parser) -> None:
    """Add the arguments of `put`."""
    text = "the courier and the numbers"
    parser.add_argument("slug_and_numbers", nargs="*", metavar="SLUG NUMBER", help=text)
    parser.add_argument("--slug", type=named, help="the courier of rows that name none")
    add_csv(parser, "slug,number,id,...")
    parser.add_argument("--id", type=named, help="your own id for the request; default: made up")
    _add_wishes(parser)
    text = "of the job; 0 comes first; default: 65536"
    parser.add_argument("--priority", type=int, default=65_536, help=text)
    text = "of the job in seconds, 1 or more; default: 60"
    parser.add_argument("--ttr", type=int, default=60, help=text)
    parser.add_argument(
        "--wait",
        nargs="?",
        type=seconds_of,
        const=60.0,
        metavar="DURATION",
        help="wait for the outcomes at most this long; default: 60",
    )
    text = "put the other rows when some are wrong"
    parser.add_argument("--skip-bad", action="store_true", help=text)
    text = "begin with this row or line of the input; an interrupted put says which"
    parser.add_argument("--from-row", type=from_one_on, default=1, metavar="N", help=text)
    add_json(parser)


def _add_wishes(parser: Parser) -> None:
    """Add what a request may say besides its slug, number and id."""
    text = "AUTOMATIC gets one turn in four while MANUAL requests wait; default: MANUAL"
    parser.add_argument("--origin", choices=("MANUAL", "AUTOMATIC"), help=text)
    text = "take an answer at most this old instead of calling the courier; 0 always calls"
    parser.add_argument("--max-age", type=seconds_of, metavar="DURATION", help=text)
    text = "cancel the request if no call has begun this long after the put"
    parser.add_argument("--expires-in", type=seconds_of, metavar="DURATION", help=text)
    text = "the service that hears of its end; each request needs an id of yours"
    parser.add_argument("--webhook", type=named, metavar="SERVICE", help=text)
    add_fields(parser)


def run_put(options: Options) -> int:
    """Put them; 0 when all were put (and with --wait: all succeeded)."""
    config = settings.loaded(options).config
    _check(options)
    couriers = catalogue.Catalogue(config)
    made = list(put.jobs_of_rows(rows.read_rows(options), couriers))
    good = [each for each in made if isinstance(each, put.Sendable)]
    bad = [each for each in made if isinstance(each, put.Bad)]
    _complain(bad, skipped=options.skip_bad)
    if (bad and not options.skip_bad) or not good:
        return Exit.WRONG
    _warn(good, couriers)
    done = _put(good, config.beanstalkd.servers, options)
    if done < len(good):
        note(f"interrupted: {_how_to_go_on(good, done)}")
        return Exit.INTERRUPTED
    if options.wait is not None:
        note(f"{done} put; to ask later what became of one: {PROGRAM} show --id ID")
        code = asyncio.run(_wait_for(good, config, options.wait, as_json=options.json))
        return code or (Exit.NEGATIVE if bad else Exit.DONE)
    return Exit.NEGATIVE if bad else Exit.DONE


def _check(options: Options) -> None:
    if not 1 <= options.ttr <= _LARGEST:
        raise UsageError(f"--ttr must be between 1 and {_LARGEST} seconds")
    if not 0 <= options.priority <= _LARGEST:
        raise UsageError(f"--priority must be between 0 (first) and {_LARGEST} (last)")
    if options.id and (options.csv or len(options.slug_and_numbers) > (1 if options.slug else 2)):
        raise UsageError("--id names one request; for several, use a CSV file with a column id")


def _complain(bad: Sequence[put.Bad], *, skipped: bool) -> None:
    for each in bad[:_COMPLAINTS_MOST]:
        note(str(each))
    if len(bad) > _COMPLAINTS_MOST:
        note(f"and {len(bad) - _COMPLAINTS_MOST} more")
    if bad:
        wrong = "1 request is wrong" if len(bad) == 1 else f"{len(bad)} requests are wrong"
        left = "and left out" if skipped else "and nothing was put: correct, or add --skip-bad"
        note(f"{wrong} {left}")


def _warn(good: Iterable[put.Sendable], couriers: catalogue.Catalogue) -> None:
    """Say what is missing while there is somebody to read it; the requests wait for it."""
    for slug in dict.fromkeys(each.slug for each in good):
        if missing := couriers.lacking(slug):
            note(f"warning: {missing}. Until a worker has them, requests wait; a day at most")


def _put(good: Sequence[put.Sendable], servers: Sequence[str], options: Options) -> int:
    """Put all, or as many as there are when Ctrl-C is pressed; tells how many that were."""
    placing = producer.PutOptions(priority=options.priority, ttr=options.ttr)
    done = 0
    with (
        producer.Producer(servers) as to,
        between_puts() as interrupted,
        drawing.Bar(len(good)) as bar,
    ):
        for batch in producer.batches(good, TOGETHER):
            failed: producer.NotPut | None = None
            try:
                placed: Sequence[producer.JobRef | None] = to.put([e.body for e in batch], placing)
            except producer.NotPut as error:
                failed, placed = error, error.placed
            for each, place in zip(batch, placed, strict=True):
                if place:
                    bar.count(*_line(each, place, options))
            if failed:
                count = sum(place is not None for place in placed)
                done += placed.index(None)
                how = _how_to_go_on(good, done, count - placed.index(None))
                raise TubesDown(f"{how}; {failed.message}", failed.fix) from failed
            done += len(batch)
            if interrupted():
                break
    return done


def _how_to_go_on(good: Sequence[put.Sendable], done: int, behind: int = 0) -> str:
    """Say where to begin again; `behind`: so many after that one were put already."""
    words = (
        f"{done + behind} of {len(good)} were put; put the rest with --from-row {good[done].row}"
    )
    if behind:
        words += f", which puts {behind} of them again"
    if any(each.made_up for each in good):
        return words
    return f"{words}, or all once more: they have their own ids, so that none is asked twice"


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


def _line(each: put.Sendable, place: producer.JobRef, options: Options) -> tuple[TextIO, str]:
    """Tell where a request's line goes, and the line; it may be empty."""
    if options.wait is None:
        return sys.stdout, rows.placed_line(each, place, as_json=options.json)
    # There the outcome is its line on standard output; a made-up id is printed before.
    return sys.stderr, rows.placed_line(each, place, as_json=False) if each.made_up else ""


async def _wait_for(
    requests: Sequence[put.Sendable], config: schema.Config, patience: float, *, as_json: bool
) -> int:
    """Print each request's end as it comes; 0 when all succeeded. Raises LimitsDown.

    Standard error says meanwhile what keeps the others, and their lines say it at the end.
    """
    code, noted = Exit.DONE, dict[str, str]()
    async for event in follow.follow(requests, config, patience):
        match event:
            case follow.End(request, operation):
                _print_outcome(request, operation, wording.summary(operation), as_json=as_json)
                if operation["status"] != State.SUCCESS and code is Exit.DONE:
                    code = Exit.NEGATIVE
            case follow.Binding():
                _note_what_binds(event, noted)
            case follow.Left(request, operation, _, seen):
                code = Exit.WAITED
                shown = dict(operation or {"status": "NOT YET"}) | (
                    look.members(seen) if seen else {}
                )
                _print_outcome(request, shown, _words(event), as_json=as_json)
    return code


def _note_what_binds(binding: follow.Binding, noted: dict[str, str]) -> None:
    """Say what keeps a courier's requests, when that is another thing than before."""
    seen = binding.seen
    # One sentence will do for all couriers.
    name = "" if seen.bound_by == "no_worker" else f"{binding.slug}: "
    what = f"{seen.bound_by} {seen.paused_why}"
    if seen.bound_by and noted.get(name) != what:
        note(f"{name}{wording.reason(seen)}")
    noted[name] = what


def _words(left: follow.Left) -> str:
    place, seen = left.place, left.seen
    if left.operation is None:
        return "no worker has taken it from the tube"
    if place is None:
        return wording.summary(left.operation)
    words = wording.stands(place)
    why = wording.reason(look.kept_by(place, seen)) if seen and place.state is State.WAITING else ""
    return f"{words}; {why}" if why else words


def _print_outcome(
    each: put.Sendable, operation: Mapping[str, Any], words: str, *, as_json: bool
) -> None:
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number, **operation}
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        sys.stdout.write(f"{operation['status']:<9} {each.slug} {each.number}  {words}\n")
    sys.stdout.flush()
