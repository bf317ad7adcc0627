"""`dead orphans`: buried jobs that no record names, because theirs was purged or lost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from service.cli.catalogue import Catalogue
from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.client.buried import Buried, buried_jobs
from service.client.connections import Collections, collections_of
from service.client.producer import Producer
from service.results.dead import is_about, record, records_of
from service.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE, decode_drain, decode_request
from tracking.call import DeadLetter
from tracking.errors import MalformedJob, TubesDown

AT_ONCE = 100
"""Jobs compared with their records in one go: their bodies are held so long."""

SHOWN = 60
"""Characters of a detail in the table."""


def run(options: argparse.Namespace) -> int:
    """List them, or record them; 1 when some have no record, 3 when a server does not answer."""
    setting = loaded(options)
    read = _reader(Catalogue(setting))
    letters: list[DeadLetter] = []
    away = []
    with (
        collections_of(setting.config) as stores,
        Producer(setting.config.beanstalkd.servers) as producer,
    ):
        for server in setting.config.beanstalkd.servers:
            try:
                for jobs in _orphans(producer, server, stores):
                    found = [read(job) for job in jobs]
                    if options.record:
                        record(stores.dead, found)
                    letters += found
            except TubesDown as error:
                away.append(str(error))
    _print(letters, options)
    for why in away:
        sys.stderr.write(f"worker.py: {why}\n")
    if away:
        return Exit.AWAY
    return Exit.NEGATIVE if letters and not options.record else Exit.DONE


def _orphans(producer: Producer, server: str, stores: Collections) -> Iterator[list[Buried]]:
    for tube in (REQUESTS_TUBE, DRAINS_TUBE):
        jobs = buried_jobs(producer, server, tube)
        while batch := list(islice(jobs, AT_ONCE)):
            records = records_of(stores.dead, server, (each.job for each in batch))
            yield [
                each
                for each in batch
                if not any(one["job"] == each.job and is_about(one, each.body) for one in records)
            ]


def _reader(couriers: Catalogue) -> Callable[[Buried], DeadLetter]:
    """Make what writes a job down as a worker would have, with today's reason."""

    def read(job: Buried) -> DeadLetter:
        reason, detail = "buried", "buried without a record, and can be read: kick it"
        slug: str | None = None
        number: str | None = None
        try:
            if job.tube == DRAINS_TUBE:
                slug = decode_drain(job.body, couriers.resolve)
            else:
                slug, number, *_ = decode_request(job.body, couriers.resolve)
        except MalformedJob as error:
            reason, detail, slug, number = error.reason, error.detail, error.slug, error.number
        return DeadLetter(
            id=f"{job.instance}:{job.job}",
            reason=reason,
            detail=detail,
            body=job.body,
            slug=slug,
            number=number,
            server=job.server,
            job=job.job,
        )

    return read


def _print(letters: Iterable[DeadLetter], options: argparse.Namespace) -> None:
    found = list(letters)
    if options.json:
        for each in found:
            say_json(
                {
                    "server": each.server,
                    "job": each.job,
                    "slug": each.slug,
                    "number": each.number,
                    "reason": each.reason,
                    "detail": each.detail,
                    "recorded": options.record,
                }
            )
        return
    if not found:
        say("every buried job has a record")
        return
    headers = ("server", "job", "courier", "number", "reason", "detail")
    table(headers, [_row(each) for each in found])
    say("")
    if options.record:
        say(f"recorded {len(found)}; `dead list` shows them")
    else:
        say(f"{len(found)} buried jobs have no record; `dead orphans --record` makes one for each")


def _row(letter: DeadLetter) -> list[str]:
    named = (letter.slug or "-", letter.number or "-", letter.reason)
    return [letter.server or "", str(letter.job), *named, letter.detail[:SHOWN]]
