"""`dead orphans`: buried jobs that no record names, because theirs was purged or lost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.connections import collections_of
from service.client.orphans import orphans, record
from service.client.producer import Producer
from tracking.call import DeadLetter
from tracking.errors import TubesDown

SHOWN = 60
"""Characters of a detail in the table."""


def run(options: argparse.Namespace) -> int:
    """List them, or record them; 1 when some have no record, 3 when a server does not answer."""
    setting = loaded(options)
    couriers = Catalogue(setting.config)
    letters: list[DeadLetter] = []
    away = []
    with (
        collections_of(setting.config) as stores,
        Producer(setting.config.beanstalkd.servers) as producer,
    ):
        for server in setting.config.beanstalkd.servers:
            try:
                for found in orphans(server, stores, producer, couriers):
                    if options.record:
                        record(stores.dead, found)
                    letters += found
            except TubesDown as error:
                away.append(str(error))
    if letters or not away:
        _print(letters, options)
    for why in away:
        sys.stderr.write(f"worker.py: {why}\n")
    if away:
        return Exit.AWAY
    return Exit.NEGATIVE if letters and not options.record else Exit.DONE


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
