"""`info`: per courier what runs, what waits, and what it waits for; what the tubes hold; who works.

Below them the status codes that couriers gave and no table holds, where there are any.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from limits.view import SlugView, View
from limits.workers import LiveWorker
from service.cli import codes, living
from service.cli.catalogue import Catalogue
from service.cli.exit_codes import Exit
from service.cli.output import drawn, say, say_json, span, table
from service.cli.settings import loaded
from service.cli.standing import cell
from service.client.connections import view_of
from service.client.producer import Producer, Tubes
from service.config.load import Loaded
from service.config.schema import Config
from tracking.request import Slug

SHORTEST_WATCH_SECONDS = 0.2

_COURIERS = ("courier", "running", "in 1 s", "waiting", "automatic", "later", "oldest", "bound by")
_TUBES = ("beanstalkd", "ready", "reserved", "delayed", "buried", "drains")

Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment. `unknown_codes` is None while MongoDB does not answer."""

    couriers: Sequence[SlugView]
    tubes: Sequence[Tubes]
    workers: Sequence[LiveWorker]
    unknown_codes: Sequence[codes.UnknownCode] | None


def run(options: argparse.Namespace) -> int:
    """Show once, or with --watch until interrupted."""
    return asyncio.run(_run(options, loaded(options)))


async def _run(options: argparse.Namespace, setting: Loaded) -> int:
    known = Catalogue(setting).registry.slugs
    with Producer(setting.config.beanstalkd.servers) as producer:
        async with view_of(setting.config) as view:
            look = functools.partial(_look, setting.config, view, known, producer)
            if options.watch is None:
                _show(await look(), as_json=options.json)
                return Exit.DONE
            pace = max(SHORTEST_WATCH_SECONDS, options.watch)
            if options.json or not sys.stdout.isatty():
                while True:
                    _show(await look(), as_json=options.json)
                    sys.stdout.flush()
                    await asyncio.sleep(pace)
            with Live(console=Console(), screen=True, auto_refresh=False) as live:
                while True:
                    live.update(_drawn(await look(), pace), refresh=True)
                    await asyncio.sleep(pace)


async def _look(config: Config, view: View, known: Sequence[Slug], producer: Producer) -> Look:
    views, workers, tubes, unknown = await asyncio.gather(
        view.slugs(known),
        view.workers(),
        asyncio.to_thread(lambda: list(producer.tubes())),
        codes.unknown_codes(config),
    )
    return Look([each for each in views if _tells(each)], tubes, workers, unknown)


def _tells(view: SlugView) -> bool:
    """Leave out couriers that nobody ever asked."""
    waiting = view.waiting_manual or view.waiting_automatic or view.waiting_later
    return bool(view.running or waiting or view.bound_by or view.counts)


def _show(look: Look, *, as_json: bool) -> None:
    if as_json:
        say_json(dataclasses.asdict(look))
        return
    table(_COURIERS, courier_rows(look.couriers))
    if not look.couriers:
        say("nothing runs, nothing waits, nothing was asked yet")
    say("")
    table(_TUBES, _tube_rows(look.tubes))
    say("")
    if look.workers:
        table(living.HEADERS, living.worker_rows(look.workers))
    else:
        say(living.NOBODY)
    if look.unknown_codes:
        say("")
        table(codes.HEADERS, codes.code_rows(look.unknown_codes))


def _drawn(look: Look, pace: float) -> Group:
    now = dt.datetime.now().astimezone()
    head = Text(f"{now:%H:%M:%S}, every {pace:g} s, Ctrl-C ends", style="dim")
    couriers = drawn(_COURIERS, courier_rows(look.couriers))
    workers = drawn(living.HEADERS, living.worker_rows(look.workers))
    parts = (
        *(head, "", couriers, "", drawn(_TUBES, _tube_rows(look.tubes))),
        *("", workers if look.workers else Text(living.NOBODY)),
    )
    if not look.unknown_codes:
        return Group(*parts)
    return Group(*parts, "", drawn(codes.HEADERS, codes.code_rows(look.unknown_codes)))


def courier_rows(views: Sequence[SlugView]) -> Rows:
    """Word each courier as a row; the age of the oldest tells more than any length."""
    return [
        [
            view.slug,
            f"{view.running}/{view.concurrent}",
            f"{view.started_last_second}/{view.per_second}",
            str(view.waiting_manual),
            str(view.waiting_automatic),
            str(view.waiting_later),
            span(view.oldest_age_seconds),
            cell(view),
        ]
        for view in views
    ]


def _tube_rows(tubes: Sequence[Tubes]) -> Rows:
    return [
        [each.server, each.error, *[""] * (len(_TUBES) - 2)]
        if each.error
        else [
            each.server,
            *(str(n) for n in (each.ready, each.reserved, each.delayed, each.buried, each.drains)),
        ]
        for each in tubes
    ]
