"""`events`: the ends of requests, as they come."""

from __future__ import annotations

import asyncio
import sys

from service.config import schema
from service.console import settings, wording
from service.console.arguments import Exit, Options, Parser, account_of, add_json, named
from service.console.output import moment, note, say, say_json
from service.operator import catalogue, follow
from tracking.request import account_and_id

BEGUN = "ends from now on, until Ctrl-C"

LOST = "some ends may be missing: Redis keeps an hour of them, 100,000 at most"


def events_arguments(parser: Parser) -> None:
    """Add the arguments of `events`."""
    text = "only of this courier; default: of all"
    parser.add_argument("slug", nargs="?", type=named, metavar="SLUG", help=text)
    text = "only requests of this account; default: of all"
    parser.add_argument("--account", type=account_of, metavar="NAME", help=text)
    text = "only requests that ended so"
    parser.add_argument(
        "--status", choices=("SUCCESS", "ERROR", "CANCELLED"), metavar="STATUS", help=text
    )
    add_json(parser)


def run_events(options: Options) -> int:
    """Print each end until Ctrl-C; then 130."""
    config = settings.loaded(options).config
    if options.slug:
        options.slug = catalogue.Catalogue(config).resolve(options.slug)[0]
    asyncio.run(_print(config, options))
    return Exit.DONE


async def _print(config: schema.Config, options: Options) -> None:
    async for end in follow.ends_as_they_come(config, lambda: note(BEGUN)):
        if end is None:
            note(LOST)
        elif _is_meant(end, options):
            _print_one(end, as_json=options.json)
            sys.stdout.flush()


def _is_meant(end: follow.Ended, options: Options) -> bool:
    slug = str(end.members.get("tracking", "")).partition(":")[0]
    return (
        options.slug in {None, slug}
        and options.status in {None, end.status}
        and options.account in {None, account_and_id(end.id)[0]}
    )


def _print_one(end: follow.Ended, *, as_json: bool) -> None:
    account, identity = account_and_id(end.id)
    slug, _, number = str(end.members.get("tracking", "")).partition(":")
    if as_json:
        members = {"id": identity, "account": account, "at": end.at, "slug": slug or None}
        output = end.members.get("output")
        say_json({**members, "number": number or None, "status": end.status, "output": output})
        return
    words = wording.summary(end.members)
    say(f"{moment(end.at)}  {end.status:<9} {slug} {number}  {words}  {identity}".rstrip())
