"""`recover`: put again what a door had spooled."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from service.cli.exit_codes import Exit, UsageError
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.producer import NotPut, Placed, Placing, Producer, batches
from service.client.put import Bad, Sendable
from service.client.spool import saved_in
from service.observe.redact import printable
from tracking.errors import TubesDown

TOGETHER = 128
"""Requests put in one go."""


def run(options: argparse.Namespace) -> int:
    """Put them all; 0 when every line could be read and every request is put."""
    setting = loaded(options)
    if not options.files and sys.stdin.isatty():
        raise UsageError("name the FILE with the door's saved output, or pipe it in")
    found = list(_found(options.files or ["-"], Catalogue(setting.config)))
    bad = [each for each in found if isinstance(each, Bad)]
    good = [each for each in found if isinstance(each, Sendable)]
    for each in bad:
        note(f"{each}, and was left out")
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
    note(f"{len(good)} requests {told}" if found else "no spooled request stands there")
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
    sys.stdout.write(line_of(each, place, as_json=as_json) + "\n")


def line_of(each: Sendable, place: Placed | None, *, as_json: bool) -> str:
    """Word a request that was put, or would be."""
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number}
        return json.dumps(line | (place._asdict() if place else {}))
    return printable(f"{each.id}  {each.slug} {each.number}")


def note(text: str) -> None:
    """Say something beside the requests."""
    sys.stderr.write(f"worker.py: {text}\n")
