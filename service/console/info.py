"""`info`: what runs and waits per courier, what binds it, what the tubes hold, and who works.

Below them it lists the status codes that couriers gave and no table holds. With --running it lists
the calls in flight instead.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from service.config import load
from service.console import drawing, settings, wording
from service.console.arguments import Exit, Options, Parser, add_json, named, seconds_of
from service.console.output import moment, say, say_json, span, table
from service.operator import attention, catalogue, look

SHORTEST_WATCH_SECONDS = 0.2
CODES_SHOWN_MOST = 10
REQUESTS_NAMED_MOST = 2
DIGITS = 3
"""Of seconds: clocks of two machines differ by more."""

_COURIERS = (
    *("courier", "running", "in 1 s", "waiting", "automatic", "later", "oldest", "last in"),
    "bound by",
)
_CHECKS = ("courier", "re-checks due", "behind by", "numbers a call")
_TUBES = ("beanstalkd", "ready", "reserved", "delayed", "buried", "drains")
_CALLS = ("started", "for", "courier", "number", "requests", "attempt", "lease", "worker")
_CODES = ("courier", "unknown code", "times", "first seen", "last seen")


class Part(NamedTuple):
    """A part of what is shown: a table, or a text where it has no headers."""

    text: str = ""
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    style: str = ""


class _Page(NamedTuple):
    """A way to look: what it reads, its parts for people, and its members for machines."""

    read: Callable[[], Awaitable[Any]]
    parts: Callable[[Any], Iterator[Part]]
    members: Callable[[Any], dict[str, Any]]


def info_arguments(parser: Parser) -> None:
    """Add the arguments of `info`."""
    text = "only this courier; default: all"
    parser.add_argument("slug", nargs="?", type=named, metavar="SLUG", help=text)
    parser.add_argument(
        "--watch",
        nargs="?",
        type=seconds_of,
        const=2.0,
        metavar="DURATION",
        help="show again every SECONDS until Ctrl-C; default: 2",
    )
    text = "list the calls in flight instead, the oldest first, also those whose worker vanished"
    parser.add_argument("--running", action="store_true", help=text)
    add_json(parser)


def run_info(options: Options) -> int:
    """Show once, or with --watch until interrupted."""
    return asyncio.run(_run(options, settings.loaded(options)))


async def _run(options: Options, setting: load.Loaded) -> int:
    is_drawn = options.watch is not None and not options.json and drawing.can_redraw()
    async with _page(options, setting, is_drawn=is_drawn) as page:
        if options.watch is None:
            _print(page, await page.read(), as_json=options.json)
            return Exit.DONE
        pace = max(SHORTEST_WATCH_SECONDS, options.watch)
        while not is_drawn:
            if not options.json:
                for line in ("", _head(pace), ""):
                    say(line)
            _print(page, await page.read(), as_json=options.json)
            sys.stdout.flush()
            await asyncio.sleep(pace)

        async def drawn() -> list[drawing.Part]:
            parts = [Part(_head(pace), style="dim"), Part(), *page.parts(await page.read())]
            return [
                drawing.drawn(each.headers, each.rows)
                if each.headers
                else drawing.styled(each.text, each.style)
                for each in parts
            ]

        await drawing.watch(drawn, pace)
    return Exit.DONE


def _head(pace: float) -> str:
    return f"{dt.datetime.now().astimezone():%H:%M:%S}, every {pace:g} s, Ctrl-C ends"


def _print(page: _Page, found: Any, *, as_json: bool) -> None:
    if as_json:
        say_json(page.members(found))
        return
    for part in page.parts(found):
        if part.headers:
            table(part.headers, part.rows)
        else:
            say(part.text)


@asynccontextmanager
async def _page(options: Options, setting: load.Loaded, *, is_drawn: bool) -> AsyncIterator[_Page]:
    couriers = catalogue.Catalogue(setting.config)
    if options.running:
        async with look.running(setting.config) as read:

            async def calls() -> list[look.RunningCall]:
                found = await read()
                only = options.slug and _slug(options.slug, couriers, {e.line for e in found})
                return [each for each in found if not only or each.line == only]

            yield _Page(calls, _parts_of_calls, _members_of_calls)
    else:
        async with look.looking(setting.config, couriers.slugs) as read_all:

            async def seen() -> look.Look:
                found = await read_all()
                return _only(options.slug, found, couriers) if options.slug else found

            yield _Page(seen, functools.partial(_parts, is_drawn=is_drawn), _members)


def _slug(text: str, couriers: catalogue.Catalogue, lines: Collection[str]) -> str:
    """Resolve what was named, unless it is a line that is there. Raises MalformedJob."""
    return text if text in lines else couriers.resolve(text)[0]


def _only(text: str, found: look.Look, couriers: catalogue.Catalogue) -> look.Look:
    """Leave out all other couriers. Raises MalformedJob for one that nobody has."""
    slug = _slug(text, couriers, {each.line for each in found.couriers})
    codes = found.unknown_codes and [each for each in found.unknown_codes if each.slug == slug]
    views = [each for each in found.couriers if each.line == slug]
    return dataclasses.replace(found, couriers=views, unknown_codes=codes)


def _members(found: look.Look) -> dict[str, Any]:
    couriers = [look.line_members(each) for each in found.couriers]
    return dataclasses.asdict(found) | {"couriers": couriers}


def _parts(found: look.Look, *, is_drawn: bool) -> Iterator[Part]:
    for worry in found.worries:
        yield from (Part(worry, style="bold"), Part())
    if found.couriers or is_drawn:
        yield Part(headers=_COURIERS, rows=courier_rows(found.couriers))
    else:
        yield Part("nothing runs, nothing waits, nothing was asked yet")
    if not is_drawn:
        yield from map(Part, _advice(found.couriers))
    if checks := _check_rows(found.couriers):
        yield from (Part(), Part(headers=_CHECKS, rows=checks))
    yield from (Part(), Part(headers=_TUBES, rows=_tube_rows(found.tubes)), Part())
    if found.workers:
        rows = wording.worker_rows(found.workers)
        yield Part(headers=wording.WORKER_HEADERS, rows=rows)
    else:
        yield Part(wording.NOBODY)
    if found.unknown_codes:
        yield from (Part(), Part(headers=_CODES, rows=_code_rows(found.unknown_codes)))


def _advice(views: Sequence[look.LineSnapshot]) -> Iterator[str]:
    """Say what lets the couriers go on that are paused."""
    whys = {each.paused_why for each in views if each.bound_by in {"paused", "probing"}}
    if whys - {attention.NO_CREDENTIALS}:
        yield f"a courier that is paused goes on at once with {wording.RESUME.format('SLUG')}"
    if attention.NO_CREDENTIALS in whys:
        yield f"a courier without credentials goes on with them: {wording.CREDENTIALS}"


def courier_rows(views: Sequence[look.LineSnapshot]) -> list[list[str]]:
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
            wording.cell(view),
        ]
        for view in views
    ]


def _check_rows(views: Sequence[look.LineSnapshot]) -> list[list[str]]:
    """Word how far re-checks are behind, and how full calls are, where either matters."""
    return [
        [
            view.line,
            "not known" if view.checks_due is None else str(view.checks_due),
            span(view.checks_behind_seconds or None),
            wording.fullness(view),
        ]
        for view in views
        if view.checks_due or (view.together > 1 and view.calls)
    ]


def _tube_rows(tubes: Sequence[look.Tubes]) -> list[list[str]]:
    return [
        [each.server, each.error, *[""] * (len(_TUBES) - 2)]
        if each.error
        else [
            each.server,
            *(str(n) for n in (each.ready, each.reserved, each.delayed, each.buried, each.drains)),
        ]
        for each in tubes
    ]


def _code_rows(codes: Sequence[look.UnknownCode]) -> list[list[str]]:
    """Word the most frequent codes as rows, and how many there are besides."""
    rows = [
        [each.slug, each.code, str(each.count), moment(each.first_seen), moment(each.last_seen)]
        for each in codes[:CODES_SHOWN_MOST]
    ]
    more = len(codes) - len(rows)
    return [*rows, [f"and {more} more: --json", "", "", "", ""]] if more else rows


def _parts_of_calls(calls: Sequence[look.RunningCall]) -> Iterator[Part]:
    yield Part(headers=_CALLS, rows=_call_rows(calls)) if calls else Part("no call runs")


def _call_rows(calls: Sequence[look.RunningCall]) -> list[list[str]]:
    return [
        [
            moment(each.started),
            span(each.seconds),
            each.line,
            each.number,
            _requests(each),
            str(each.attempt),
            "over: a sweep brings it back"
            if each.lease_seconds is None
            else f"{span(each.lease_seconds)} left",
            each.worker or "not heard of",
        ]
        for each in calls
    ]


def _requests(call: look.RunningCall) -> str:
    """Name the newest requests of a call; of those without an id all stand behind one."""
    shown = call.operations[:REQUESTS_NAMED_MOST]
    named, more = ", ".join(shown), call.requests - len(shown)
    return f"{named} and {more} more" if more > 0 else named


def _members_of_calls(calls: Sequence[look.RunningCall]) -> dict[str, Any]:
    """Give `slug` for the line, `started` as ISO 8601, seconds to the millisecond."""
    return {"running": [_members_of(each) for each in calls]}


def _members_of(call: look.RunningCall) -> dict[str, Any]:
    members, lease = dataclasses.asdict(call), call.lease_seconds
    seconds = {
        "seconds": round(call.seconds, DIGITS),
        "lease_seconds": None if lease is None else round(lease, DIGITS),
    }
    started = dt.datetime.fromtimestamp(call.started, dt.UTC)
    return {"slug": members.pop("line"), **members, **seconds, "started": started}
