"""`info`: per courier what runs, what waits, and what it waits for; what the tubes hold; who works.

Below them the status codes that couriers gave and no table holds, where there are any. With
--running the calls in flight instead.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from service.cli import codes, in_flight, living
from service.cli.exit_codes import Exit
from service.cli.output import drawn, say, say_json, span, table
from service.cli.settings import loaded
from service.cli.standing import CREDENTIALS, NO_CREDENTIALS, RESUME, cell
from service.client.catalogue import Catalogue
from service.client.look import (
    LineSnapshot,
    Look,
    RunningCall,
    Tubes,
    line_members,
    looking,
    running,
)
from service.config.load import Loaded

SHORTEST_WATCH_SECONDS = 0.2

_COURIERS = (
    *("courier", "running", "in 1 s", "waiting", "automatic", "later", "oldest", "last in"),
    "bound by",
)
_TUBES = ("beanstalkd", "ready", "reserved", "delayed", "buried", "drains")

Rows = list[list[str]]


def run(options: argparse.Namespace) -> int:
    """Show once, or with --watch until interrupted."""
    return asyncio.run(_run(options, loaded(options)))


class _Page(NamedTuple):
    """One way to look: what it reads, and how that is said, told to machines and drawn."""

    look: Callable[[], Awaitable[Any]]
    say: Callable[[Any], None]
    members: Callable[[Any], dict[str, Any]]
    parts: Callable[[Any], Sequence[Text | Table | str]]


@asynccontextmanager
async def _page(options: argparse.Namespace, setting: Loaded) -> AsyncIterator[_Page]:
    catalogue = Catalogue(setting.config)
    if options.running:
        async with running(setting.config) as look:

            async def calls() -> list[RunningCall]:
                found = await look()
                only = options.slug and _slug(options.slug, catalogue, {e.line for e in found})
                return [each for each in found if not only or each.line == only]

            yield _Page(calls, in_flight.say_calls, in_flight.members, in_flight.parts)
    else:
        async with looking(setting.config, catalogue.slugs) as look_at_all:

            async def seen() -> Look:
                found = await look_at_all()
                return _only(options.slug, found, catalogue) if options.slug else found

            yield _Page(seen, _say, _members, _parts)


def _slug(text: str, catalogue: Catalogue, lines: Collection[str]) -> str:
    """Resolve what was named, unless it is a line that is there. Raises MalformedJob."""
    return text if text in lines else catalogue.resolve(text)[0]


def _only(text: str, look: Look, catalogue: Catalogue) -> Look:
    """Leave out all other couriers. Raises MalformedJob for one that nobody has."""
    slug = _slug(text, catalogue, {each.line for each in look.couriers})
    codes_of = look.unknown_codes and [each for each in look.unknown_codes if each.slug == slug]
    views = [each for each in look.couriers if each.line == slug]
    return dataclasses.replace(look, couriers=views, unknown_codes=codes_of)


async def _run(options: argparse.Namespace, setting: Loaded) -> int:
    async with _page(options, setting) as page:
        if options.watch is None:
            _show(page, await page.look(), as_json=options.json)
            return Exit.DONE
        pace = max(SHORTEST_WATCH_SECONDS, options.watch)
        console = Console()
        # A dumb terminal cannot be drawn over: it gets page after page.
        if options.json or not console.is_terminal or console.is_dumb_terminal:
            while True:
                if not options.json:
                    say("")
                    say(_head(pace).plain)
                    say("")
                _show(page, await page.look(), as_json=options.json)
                sys.stdout.flush()
                await asyncio.sleep(pace)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                parts = page.parts(await page.look())
                live.update(Group(_head(pace), "", *parts), refresh=True)
                await asyncio.sleep(pace)


def _show(page: _Page, found: Any, *, as_json: bool) -> None:
    if as_json:
        say_json(page.members(found))
    else:
        page.say(found)


def _head(pace: float) -> Text:
    now = dt.datetime.now().astimezone()
    return Text(f"{now:%H:%M:%S}, every {pace:g} s, Ctrl-C ends", style="dim")


def _members(look: Look) -> dict[str, Any]:
    return dataclasses.asdict(look) | {"couriers": [line_members(each) for each in look.couriers]}


def _say(look: Look) -> None:
    for worry in look.worries:
        say(worry)
        say("")
    if look.couriers:
        table(_COURIERS, courier_rows(look.couriers))
    else:
        say("nothing runs, nothing waits, nothing was asked yet")
    whys = {v.paused_why for v in look.couriers if v.bound_by in {"paused", "probing"}}
    if whys - {NO_CREDENTIALS}:
        say(f"a courier that is paused goes on at once with {RESUME.format('SLUG')}")
    if NO_CREDENTIALS in whys:
        say(f"a courier without credentials goes on with them: {CREDENTIALS}")
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


def _parts(look: Look) -> Sequence[Text | Table | str]:
    couriers = drawn(_COURIERS, courier_rows(look.couriers))
    workers = drawn(living.HEADERS, living.worker_rows(look.workers))
    parts: list[Text | Table | str] = []
    for worry in look.worries:
        parts += [Text(worry, style="bold"), ""]
    parts += [couriers, "", drawn(_TUBES, _tube_rows(look.tubes))]
    parts += ["", workers if look.workers else Text(living.NOBODY)]
    if look.unknown_codes:
        parts += ["", drawn(codes.HEADERS, codes.code_rows(look.unknown_codes))]
    return parts


def courier_rows(views: Sequence[LineSnapshot]) -> Rows:
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
            span(view.last_starts_seconds),
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
