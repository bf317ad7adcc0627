"""`list`: an account's parcels, by tag, courier, age or label, or by a search."""

from __future__ import annotations

import datetime as dt

from service.config import schema
from service.console import settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    add_account,
    add_json,
    aged,
    from_one_on,
    named,
)
from service.console.output import moment, note, say, say_json, table
from service.operator import catalogue, connections, parcels
from tracking.checkpoint import Tag
from tracking.errors import MalformedJob

SORTS = ("-updated", "updated", "-created", "created", "next_check")
SAID_MOST = 48
"""Characters of the newest event."""


def list_arguments(parser: Parser) -> None:
    """Add the arguments of `list`."""
    text = f"only with this tag: {', '.join(Tag)}; repeatable"
    parser.add_argument(
        "--tag", type=Tag, action="append", choices=list(Tag), default=[], metavar="TAG", help=text
    )
    parser.add_argument("--slug", "--courier", type=named, help="only of this courier")
    text = "only what changed in the last 15m, 2h or 3d"
    parser.add_argument("--age", type=aged, metavar="DURATION", help=text)
    text = "only with this label (AfterShip's `shipment_tags`)"
    parser.add_argument("--label", type=named, metavar="LABEL", help=text)
    text = "the beginning of a number, an order, a customer, a title or a label"
    parser.add_argument("--search", type=named, metavar="TEXT", help=text)
    text = f"one of {', '.join(SORTS)}; a minus begins with the newest; default: -updated"
    parser.add_argument("--sort", choices=SORTS, default=SORTS[0], metavar="ORDER", help=text)
    text = "at most this many; default: 50"
    parser.add_argument("--limit", type=from_one_on, default=50, metavar="NUMBER", help=text)
    add_account(parser)
    add_json(parser)


def run_list(options: Options) -> int:
    """List them; 1 where there are none."""
    return settings.on_stores(_list)(options)


def _list(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    since = options.age and dt.datetime.now(dt.UTC) - dt.timedelta(seconds=options.age)
    which = parcels.Which(
        options.account,
        tuple(options.tag),
        _slug(options, config),
        since=since,
        search=options.search or "",
        label=options.label or "",
        sort=parcels.Sort(options.sort),
    )
    page = parcels.page_of(stores, which, options.limit)
    if options.json:
        for each in page.rows:
            say_json({**each.parcel, "words": each.words})
    elif page.rows:
        headers = ("parcel", "tag", "updated", "next check", "order", "newest event")
        table(headers, list(map(_row, page.rows)))
    else:
        say("no parcel fits this; one is listed once its first call has ended")
    if page.narrow:
        note(f"more than {parcels.SOUGHT_MOST} are found: these are of the first ones, name more")
    return Exit.DONE if page.rows else Exit.NEGATIVE


def _slug(options: Options, config: schema.Config) -> str:
    """Read the courier, also one that is not configured any more."""
    if not options.slug:
        return ""
    try:
        return catalogue.Catalogue(config).resolve(options.slug)[0]
    except MalformedJob:
        return str(options.slug)


def _row(each: parcels.Row) -> tuple[str, ...]:
    parcel = each.parcel
    return (
        parcel["_id"],
        parcel["tag"],
        moment(parcel["updated_at"]),
        moment(parcel.get("next_check_at")) or "-",
        each.order or "-",
        each.last.get("message", "-")[:SAID_MOST],
    )
