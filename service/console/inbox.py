"""`inbox`: what other systems sent to relays, listed, shown, resent, edited and deleted."""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service import PROGRAM
from service.config import schema
from service.console import delivery, settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_account,
    add_actions,
    add_delivery_filter,
    add_json,
    add_yes,
    from_one_on,
    named,
)
from service.console.output import agreed, moment, say, say_json, table, tell
from service.operator import audit, connections, inbox, services

if TYPE_CHECKING:
    from service.operator.inbox import Which

URL_SHOWN = 60


def inbox_arguments(parser: Parser) -> None:
    """Add the actions of `inbox`."""
    actions = {
        "list": ("List what came to relays, the newest first.", _list),
        "show": ("Show all of a request: as it came, and its attempts.", _show),
        "resend": ("Send requests again, now, as they came.", _resend),
        "edit": ("Send an edited copy of a request, now.", _edit),
        "delete": ("Delete requests, with their bodies and their attempts.", _delete),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        if action in {"resend", "delete"}:
            each.add_argument("ids", nargs="+", metavar="ID")
        elif action != "list":
            each.add_argument("id", metavar="ID")
        if action == "list":
            _add_filter(each)
        if action == "edit":
            _add_changes(each)
        if action == "delete":
            add_yes(each)
        add_account(each)
        add_json(each)


def _add_filter(parser: Parser) -> None:
    add_delivery_filter(parser)
    text = "only where the last attempt was answered so, like 500; 0: it had no answer"
    parser.add_argument("--status", type=_status, metavar="STATUS", help=text)
    text = "only what has each of these words in path, headers or the beginning of its body"
    parser.add_argument("--words", type=named, metavar="WORDS", help=text)
    text = "at most this many; default: 50"
    parser.add_argument("--limit", type=from_one_on, default=50, metavar="NUMBER", help=text)


def _add_changes(parser: Parser) -> None:
    text = "another method, target (path and query), or body; what is not named stays"
    parser.add_argument("--method", type=named, metavar="METHOD", help=text)
    parser.add_argument("--target", type=named, metavar="TARGET", help="as it is sent: /path?query")
    parser.add_argument(
        "--header",
        dest="headers",
        type=_header,
        action="append",
        metavar="HEADER",
        help="'NAME: VALUE', in the place of all headers; several times for several",
    )
    body = parser.add_mutually_exclusive_group()
    body.add_argument("--body", metavar="TEXT", help="sent in UTF-8")
    body.add_argument("--body-file", metavar="FILE", help="its bytes; - is standard input")
    text = "the same one makes one request, however often this is repeated"
    parser.add_argument("--key", type=named, metavar="KEY", help=text)


def _status(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 599):  # noqa: PLR2004 - of HTTP
        raise argparse.ArgumentTypeError(f"{text!r} is no status: write 500, or 0 for no answer")
    return int(text)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is no header: write 'NAME: VALUE'")
    return name, value.strip()


def _list(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    words = inbox.sought(options.words) if options.words else ()
    which: Which = delivery.which_of(options, config, stores, status=options.status, words=words)
    page = inbox.inbox_of(stores, which, options.limit)
    if options.json:
        for each in page.requests:
            say_json(each)
        return Exit.DONE
    if words:
        say(f"of what came until {moment(page.searched_until)} all is found")
    if not page.requests:
        say("no request fits this")
        return Exit.DONE
    headers = ("id", "at", "service", "method", "url", "state", "status", "made", "why")
    table(headers, list(map(_row, page.requests)))
    return Exit.DONE


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    return (
        each["id"],
        moment(each["received_at"]),
        each["service"] or "-",
        each["method"] or "-",
        (each["url"] or "-")[:URL_SHOWN],
        each["state"],
        "-" if each["status"] is None else str(each["status"]),
        str(each["made"]),
        each["why"] or "-",
    )


def _show(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    try:
        told = inbox.show(stores, options.account, options.id)
    except inbox.UnknownDelivery as error:
        say(f"{error}; `inbox list` shows them")
        return Exit.NEGATIVE
    if options.json:
        say_json(told)
        return Exit.DONE
    headers, attempts = told.pop("headers"), told.pop("attempts")
    told |= {"push": told["push"] and ", ".join(f"{n} {v}" for n, v in told["push"].items())}
    body, in_base64 = told.pop("body"), told.pop("body_base64")
    for name, value in told.items():
        shown = moment(value) if isinstance(value, dt.datetime) else value
        say(f"{name:<12} {'' if shown is None else shown}".rstrip())
    for name, value in headers:
        say(f"{'header':<12} {name}: {value}")
    is_kept = body is not None or in_base64 is not None
    say(f"{'body':<12} {(body or in_base64 or '') if is_kept else 'it is not kept any more'}")
    delivery.say_attempts(attempts)
    return Exit.DONE


def _resend(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    of = services.Services(config, stores)
    return delivery.each_of(options, "resent", functools.partial(inbox.resend, of))


def _edit(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    body = None if options.body is None else options.body.encode()
    if options.body_file:
        body = _read(options.body_file)
    wished = inbox.Edit(options.method, options.target, options.headers, body, options.key or "")
    if wished[:4] == (None,) * 4:
        raise UsageError("say what is another: --method, --target, --header or --body, see --help")
    of = services.Services(config, stores)
    try:
        made = inbox.edit(of, audit.Operator(), options.account, options.id, wished)
    except inbox.UnknownDelivery as error:
        say(f"{error}; `inbox list` shows them")
        return Exit.NEGATIVE
    members = {"id": made.id, "edited_from": options.id, "state": made.state}
    words = f"on its way; `{PROGRAM} inbox show {made.id}` says what came of it"
    tell(members, words, as_json=options.json)
    return Exit.DONE


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from error


def _delete(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    count = len(options.ids)
    if not agreed(f"Delete {count} requests, with bodies and attempts?", yes=options.yes):
        return Exit.NEGATIVE
    act = functools.partial(inbox.delete, config, stores)
    return delivery.each_of(options, "deleted", act)
