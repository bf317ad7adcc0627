"""`dead` and `resend`: requests that got no answer or have ended are listed, deleted, asked again.

`dead kick` is another name of `resend`: it chooses by the ids of records.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from service import NAME
from service.config import schema
from service.console import drawing, settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_actions,
    add_json,
    add_yes,
    aged,
    from_one_on,
    named,
)
from service.console.output import agreed, moment, note, say, say_json, summed, table
from service.operator import catalogue, connections, dead, look, producer, resend
from tracking.errors import MalformedJob, StoreError

DETAIL_SHOWN = 60
RESENDS_SHOWN_MOST = 50
_NO_SUCH = "no dead request has this id, and all else that is asked for; `dead list` shows them"

Line: TypeAlias = "Callable[[resend.ResendTarget, str | None], str]"
"""Words a request that was put again, with its new id; "" says nothing."""


def dead_arguments(parser: Parser) -> None:
    """Add the actions of `dead`."""
    actions = {
        "list": ("List records, newest first.", _list_records),
        "show": ("Show all of one record.", _show_record),
        "kick": ("Put the requests again, then delete their records.", _kick),
        "delete": ("Delete records and their buried jobs.", _delete),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        if action == "show":
            each.add_argument("ids", nargs=1, metavar="ID")
        else:
            each.add_argument("--slug", type=named, help="only requests for this courier")
            each.add_argument("--reason", type=named, help="only with this reason")
        if action == "list":
            each.add_argument(
                "--limit", type=from_one_on, default=50, help="at most this many; default: 50"
            )
        if action in {"kick", "delete"}:
            each.add_argument("ids", nargs="*", metavar="ID")
            each.add_argument("--all", action="store_true", help="every record")
            add_yes(each)
        add_json(each)


def _resolved(text: str | None, config: schema.Config) -> str | None:
    """Resolve an alias. A courier that nobody has is no error: requests for it die too."""
    try:
        return text and catalogue.Catalogue(config).resolve(text)[0]
    except MalformedJob as error:
        note(error.detail)
        return text


def _list_records(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    wanted = dead.Filter(slug=_resolved(options.slug, config), reason=options.reason)
    documents = dead.find(stores.dead, wanted, options.limit)
    if options.json:
        for document in documents:
            say_json(document)
        return Exit.DONE
    reasons = dead.count_by_reason(stores.dead)
    counted = ", ".join(f"{reason}: {count}" for reason, count in reasons.items())
    if not documents:
        say(f"no dead request fits this; there are {counted}" if counted else "no request is dead")
        return Exit.DONE
    headers = ("id", "at", "courier", "number", "reason", "detail")
    table(headers, [_row(document) for document in documents])
    say("")
    say(f"{len(documents)} shown of {sum(reasons.values())} in all ({counted})")
    return Exit.DONE


def _row(document: dead.Document) -> list[str]:
    detail = str(document.get("detail", ""))
    if len(detail) > DETAIL_SHOWN:
        detail = f"{detail[:DETAIL_SHOWN]}…"
    names = (document.get("slug"), document.get("number"), document.get("reason"))
    return [
        str(document["_id"]),
        moment(document.get("at")),
        *(str(n or "-") for n in names),
        detail,
    ]


def _show_record(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    (identity,) = options.ids
    documents = dead.find(stores.dead, dead.Filter(ids=(identity,)))
    if not documents:
        say(f"no dead request has the id {identity}; `dead list` shows them")
        return Exit.NEGATIVE
    if options.json:
        say_json(documents[0])
        return Exit.DONE
    for name, value in documents[0].items():
        shown = moment(value) if name == "at" else value
        say(f"{name:<11} {shown if isinstance(shown, str) else _written(shown)}")
    return Exit.DONE


def _written(value: Any) -> str:
    return (
        value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else json.dumps(value)
    )


def _kick(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    documents, missing = _chosen(options, config, stores)
    # What is named by its id is meant; how many a filter means, nobody knows before.
    named = options.yes or bool(options.ids)
    if documents and not agreed(f"Put {_counted(documents)} again?", yes=named):
        return Exit.NEGATIVE

    def line(each: resend.ResendTarget, identity: str | None) -> str:
        kicked = {"_id": (each.record or {})["_id"], "kicked": True, "id": identity}
        return json.dumps(kicked) + "\n" if options.json else ""

    targets = list(map(resend.of_record, documents))
    done, failed = _resend_all(targets, config, stores, line)
    return summed("kicked", done, failed + missing, as_json=options.json)


def _delete(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    documents, missing = _chosen(options, config, stores)
    question = f"Delete {_counted(documents)} for ever, with the buried jobs?"
    if documents and not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    done, failed = 0, 0
    with producer.Producer(config.beanstalkd.servers) as to:
        for document in documents:
            try:
                done += dead.delete_dead(document, stores.dead, to)
            except StoreError as error:
                failed += 1
                note(f"{document['_id']}: {error}")
    return summed("deleted", done, failed + missing, as_json=options.json)


def _chosen(
    options: Options, config: schema.Config, stores: connections.Collections
) -> tuple[list[dead.Document], int]:
    """Find what is meant, and count the ids that no record has; names them on standard error."""
    narrowed = bool(options.ids or options.slug or options.reason)
    if narrowed == options.all:
        raise UsageError("say which: ids, --slug or --reason, or --all by itself")
    wanted = dead.Filter(tuple(options.ids), _resolved(options.slug, config), options.reason)
    found = dead.find(stores.dead, wanted)
    if not found and not options.ids:
        _note_nothing_fits(stores)
    missing = sorted(set(options.ids) - {str(each["_id"]) for each in found})
    for identity in missing:
        note(f"{identity}: {_NO_SUCH}")
    return found, len(missing)


def resend_arguments(parser: Parser) -> None:
    """Add the arguments of `resend`."""
    parser.add_argument("slug", type=named, nargs="?", metavar="SLUG", help="the courier")
    text = "what is dead of this number, or ended last"
    parser.add_argument("number", type=named, nargs="?", metavar="NUMBER", help=text)
    parser.add_argument("--id", type=named, help="the newest request with this id, dead or ended")
    text = "all that are dead with this reason; with SLUG: of it only"
    parser.add_argument("--reason", type=named, help=text)
    text = "all that died in the last 15m, 2h or 3d; with SLUG or --reason: of these only"
    parser.add_argument("--since", type=aged, metavar="DURATION", help=text)
    parser.add_argument("--dry-run", action="store_true", help="list what is meant, put nothing")
    add_yes(parser)
    add_json(parser)


def run_resend(options: Options) -> int:
    """Resend what is meant; 1 when that is nothing, or not all of it was put."""
    config = settings.loaded(options).config
    _check(options)
    with connections.collections_of(config) as stores:
        try:
            targets = _targets(options, config, stores)
        except resend.NotEnded as error:
            note(str(error))
            return Exit.NEGATIVE
        if not targets:
            _note_nothing_fits(stores)
        if options.dry_run:
            _list_targets(targets, as_json=options.json)
            return Exit.DONE if targets else Exit.NEGATIVE
        # What is named by its id or number is meant; how many a filter means, nobody knows before.
        is_named = bool(options.id or options.number)
        if targets and not agreed(f"Resend {_counted(targets)}?", yes=options.yes or is_named):
            return Exit.NEGATIVE
        done, failed = _resend_all(targets, config, stores, _json_line if options.json else _line)
    return summed("resent", done, failed, as_json=options.json)


def _resend_all(
    targets: Sequence[resend.ResendTarget],
    config: schema.Config,
    stores: connections.Collections,
    line: Line,
) -> tuple[int, int]:
    """Put each again; counts those that were put, and those that were not."""
    done, failed = 0, 0
    servers = config.beanstalkd.servers
    with producer.Producer(servers) as to, drawing.Bar(len(targets)) as bar:
        for each in targets:
            try:
                identity = resend.resend(each, stores, to)
            except (resend.NotResent, StoreError) as error:
                failed += 1
                name = each.record["_id"] if each.record else each.operation
                bar.count(sys.stderr, f"{NAME}: {name}: {error}\n")
                continue
            done += 1
            bar.count(sys.stdout, line(each, identity))
    return done, failed


def _note_nothing_fits(stores: connections.Collections) -> None:
    """Say that no record is meant, and which reasons there are."""
    reasons = ", ".join(
        f"{why}: {count}" for why, count in dead.count_by_reason(stores.dead).items()
    )
    there = f"there are {reasons}; `dead list` shows them" if reasons else "there are none"
    note(f"no dead request fits this; {there}")


def _counted(requests: Sequence[object]) -> str:
    """Word how many."""
    return "1 request" if len(requests) == 1 else f"{len(requests)} requests"


def _check(options: Options) -> None:
    is_filter = bool(options.reason or options.since)
    if options.id and (options.slug or is_filter):
        raise UsageError("--id names one request; give nothing else beside it")
    if not (options.id or options.number or is_filter):
        raise UsageError(
            "say which: SLUG NUMBER, --id ID, or of the dead ones --reason REASON and --since 2h"
        )


def _targets(
    options: Options, config: schema.Config, stores: connections.Collections
) -> list[resend.ResendTarget]:
    """Find what is dead, or else what has ended. Raises NotEnded."""
    if options.id:
        return [_of_id(config, stores, options.id)]
    couriers = catalogue.Catalogue(config)
    slug = number = None
    if options.number:
        slug, number = couriers.parcel(options.slug, options.number)
    elif options.slug:
        slug, _ = couriers.resolve(options.slug)
    since = options.since and dt.datetime.now(dt.UTC) - dt.timedelta(seconds=options.since)
    wanted = dead.Filter(slug=slug, number=number, reason=options.reason, since=since or None)
    found = resend.dead_ones(stores, wanted)
    if found or not (slug and number) or options.reason or options.since:
        return found
    parcel = asyncio.run(look.parcel_of(config, slug, number))
    operations = look.with_archived(config, slug, number, parcel.operations)
    return [resend.newest_ended(f"{slug} {number}", operations)]


def _of_id(
    config: schema.Config, stores: connections.Collections, identity: str
) -> resend.ResendTarget:
    """Find the record of this id, or else the newest request that had it. Raises NotEnded."""
    found = dead.find(stores.dead, dead.Filter(operation=identity))
    if own := [each for each in found if each["_id"] == identity]:
        return resend.of_record(own[0])
    operation = asyncio.run(look.operation_of(config, identity)).operation
    return resend.newest_of(identity, operation, found)


def _list_targets(targets: Sequence[resend.ResendTarget], *, as_json: bool) -> None:
    if as_json:
        for each in targets:
            say_json(_members(each))
        return
    rows = [
        [each.slug or "-", each.number or "-", each.operation or "-", each.why] for each in targets
    ]
    if rows:
        table(("courier", "number", "request", "why"), rows[:RESENDS_SHOWN_MOST])
        say("")
    more = f", the first {RESENDS_SHOWN_MOST} shown" if len(rows) > RESENDS_SHOWN_MOST else ""
    say(f"would resend {_counted(targets)}{more}; nothing was put")


def _members(each: resend.ResendTarget) -> dict[str, str | None]:
    operation = each.operation or None
    return {"slug": each.slug, "number": each.number, "resend_of": operation, "why": each.why}


def _json_line(each: resend.ResendTarget, identity: str | None) -> str:
    return json.dumps({"id": identity, **_members(each)}) + "\n"


def _line(each: resend.ResendTarget, identity: str | None) -> str:
    name = f"{each.slug or '-'} {each.number or '-'}"
    return f"{name}: {identity or 'put as it was'} repeats {each.operation or 'it'} ({each.why})\n"
