"""`recover`: put again what a door had spooled, or what waited in a Redis that was emptied."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from service.cli.exit_codes import Exit, UsageError
from service.cli.progress_bar import Bar
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.mirrored import Recovered, Recovery, Standing
from service.client.producer import NotPut, Placed, Placing, Producer, batches
from service.client.put import Bad, Sendable
from service.client.saved_lines import saved_in
from service.config.schema import Config
from service.observe.redact import printable
from tracking.errors import TubesDown

TOGETHER = 128
"""Requests put in one go."""


def run(options: argparse.Namespace) -> int:
    """Put them all; 0 when every line could be read and every request is put."""
    setting = loaded(options)
    if options.redis:
        if options.files:
            raise UsageError("--redis reads no FILE: leave one of both out")
        return _out_of_mirror(setting.config, dry_run=options.dry_run, as_json=options.json)
    if not options.files and sys.stdin.isatty():
        raise UsageError("name the FILE with the door's saved output, or pipe it in")
    found = list(_found(options.files or ["-"], Catalogue(setting.config)))
    bad = [each for each in found if isinstance(each, Bad)]
    good = [each for each in found if isinstance(each, Sendable)]
    for each in bad:
        _note(f"{each}, and was left out")
    if options.dry_run:
        for one in good:
            _tell(one, None, as_json=options.json)
    else:
        with Producer(setting.config.beanstalkd.servers) as producer:
            for batch in batches(good, TOGETHER):
                _put(producer, batch, as_json=options.json)
    told = (
        "would be put" if options.dry_run else "put; those that were put before are not asked twice"
    )
    _note(f"{len(good)} requests {told}" if found else "no spooled request stands there")
    return Exit.NEGATIVE if bad else Exit.DONE


def _out_of_mirror(config: Config, *, dry_run: bool, as_json: bool) -> int:
    put = bad = ended = 0
    with Recovery(config, dry_run=dry_run) as recovery, Bar(recovery.total) as bar:
        for each in recovery.run():
            match each:
                case Bad():
                    bad += 1
                    bar.count(sys.stderr, f"worker.py: {each}, and was left out\n")
                case Recovered(kept, place):
                    put += 1
                    bar.count(sys.stdout, _line(kept, place, as_json=as_json) + "\n")
                case Standing.ENDED:
                    ended += 1
                    bar.count(sys.stdout, "")
                case Standing.WAITS:
                    bar.count(sys.stdout, "")
    total = recovery.total
    _note(
        f"{put} of {total} open requests {'would be' if dry_run else 'were'} put, {ended} had ended"
    )
    if not total and not config.redis.mirror:
        _note("[redis] mirror is off: nothing is written down of what waits")
    return Exit.NEGATIVE if bad else Exit.DONE


def _found(names: Iterable[str], catalogue: Catalogue) -> Iterator[Sendable | Bad]:
    for name in names:
        if name == "-":
            yield from saved_in(sys.stdin.buffer, "standard input", catalogue)
            continue
        try:
            with Path(name).open("rb") as file:
                yield from saved_in(file, name, catalogue)
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from error


def _put(producer: Producer, batch: Sequence[Sendable], *, as_json: bool) -> None:
    failed: NotPut | None = None
    try:
        placed: Sequence[Placed | None] = producer.put([each.body for each in batch], Placing())
    except NotPut as error:
        failed, placed = error, error.placed
    for each, place in zip(batch, placed, strict=True):
        if place:
            _tell(each, place, as_json=as_json)
    if failed:
        told = f"not all were put, so put all of them again: {failed.message}"
        raise TubesDown(told, failed.fix) from failed


def _tell(each: Sendable, place: Placed | None, *, as_json: bool) -> None:
    sys.stdout.write(_line(each, place, as_json=as_json) + "\n")


def _line(each: Sendable, place: Placed | None, *, as_json: bool) -> str:
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number}
        return json.dumps(line | (place._asdict() if place else {}))
    return printable(f"{each.id}  {each.slug} {each.number}")


def _note(text: str) -> None:
    sys.stderr.write(f"worker.py: {text}\n")
