"""`info`: per courier what runs, what waits, and what it waits for; what the tubes hold; who works.

Below them the status codes that couriers gave and no table holds, where there are any.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import sys
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from service.cli import codes, living
from service.cli.exit_codes import Exit
from service.cli.output import drawn, say, say_json, span, table
from service.cli.settings import loaded
from service.cli.standing import RESUME, cell
from service.client.catalogue import Catalogue
from service.client.look import LineView, Look, Tubes, looking
from service.config.load import Loaded

SHORTEST_WATCH_SECONDS = 0.2

_COURIERS = ("courier", "running", "in 1 s", "waiting", "automatic", "later", "oldest", "bound by")
_TUBES = ("beanstalkd", "ready", "reserved", "delayed", "buried", "drains")

Rows = list[list[str]]


def run(options: argparse.Namespace) -> int:
    """Show once, or with --watch until interrupted."""
    return asyncio.run(_run(options, loaded(options)))


async def _run(options: argparse.Namespace, setting: Loaded) -> int:
    async with looking(setting.config, Catalogue(setting.config).slugs) as look:
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


def _show(look: Look, *, as_json: bool) -> None:
    if as_json:
        shown = dataclasses.asdict(look)
        couriers = [{"slug": each.pop("line"), **each} for each in shown["couriers"]]
        say_json(shown | {"couriers": couriers})
        return
    for worry in look.worries:
        say(worry)
        say("")
    table(_COURIERS, courier_rows(look.couriers))
    if any(view.bound_by in {"paused", "probing"} for view in look.couriers):
        say(f"a courier that is paused goes on at once with {RESUME.format('SLUG')}")
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
    parts: list[Text | Table | str] = [head, ""]
    for worry in look.worries:
        parts += [Text(worry, style="bold"), ""]
    parts += [couriers, "", drawn(_TUBES, _tube_rows(look.tubes))]
    parts += ["", workers if look.workers else Text(living.NOBODY)]
    if look.unknown_codes:
        parts += ["", drawn(codes.HEADERS, codes.code_rows(look.unknown_codes))]
    return Group(*parts)


def courier_rows(views: Sequence[LineView]) -> Rows:
    """Word each courier as a row; the age of the oldest tells more than any length."""
    return [
        [
            view.line,
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
