"""`dead`: requests that got no answer, listed, shown, put again (as `resend` does) or deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from service.cli import resend, settings
from service.cli.arguments import (
    Exit,
    Options,
    Parser,
    Run,
    UsageError,
    add_actions,
    add_json,
    add_yes,
    from_one_on,
    named,
)
from service.cli.output import agreed, moment, note, say, say_json, table
from service.client import catalogue, connections, dead, producer
from service.client import resend as resending
from service.config import schema
from tracking.errors import MalformedJob, StoreError

DETAIL_SHOWN = 60
_NO_SUCH = "no dead request has this id, and all else that is asked for; `dead list` shows them"


def dead_arguments(parser: Parser) -> None:
    """Add the actions of `dead`."""
    actions = {
        "list": ("List records, newest first.", _on_records(_list)),
        "show": ("Show all of one record.", _on_records(_show)),
        "kick": ("Put the requests again, then delete their records.", _on_records(_kick)),
        "delete": ("Delete records and their buried jobs.", _on_records(_delete)),
    }
    for action, each in add_actions(parser, actions).items():
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


def _on_records(act: Callable[[Options, schema.Config, connections.Collections], int]) -> Run:
    """Do an act on the records; 1 when nothing was found or not all of it was done."""

    def run(options: Options) -> int:
        config = settings.loaded(options).config
        if getattr(options, "slug", None):
            options.slug = _resolved(options.slug, catalogue.Catalogue(config))
        with connections.collections_of(config) as stores:
            return act(options, config, stores)

    return run


def _resolved(text: str, couriers: catalogue.Catalogue) -> str:
    """Resolve an alias. A courier that nobody has is no error: requests for it die too."""
    try:
        return couriers.resolve(text)[0]
    except MalformedJob as error:
        note(error.detail)
        return text


def _list(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    wanted = dead.Filter(slug=options.slug, reason=options.reason)
    documents = dead.find(stores.dead, wanted, options.limit)
    if options.json:
        for document in documents:
            say_json(document)
        return Exit.DONE
    reasons = dead.count_by_reason(stores.dead)
    counted = ", ".join(f"{reason}: {count}" for reason, count in reasons.items())
    if not documents:
        said = (
            f"no dead request fits this; there are {counted}" if counted else "no request is dead"
        )
        say(said)
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


def _show(options: Options, _: schema.Config, stores: connections.Collections) -> int:
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
    documents, missing = _chosen(options, stores)
    # What is named by its id is meant; how many a filter means, nobody knows before.
    named = options.yes or bool(options.ids)
    if documents and not agreed(f"Put {resend.counted(documents)} again?", yes=named):
        return Exit.NEGATIVE

    def line(each: resending.ResendTarget, identity: str | None) -> str:
        kicked = {"_id": (each.record or {})["_id"], "kicked": True, "id": identity}
        return json.dumps(kicked) + "\n" if options.json else ""

    targets = list(map(resending.of_record, documents))
    done, failed = resend.resend_all(targets, config, stores, line)
    return _summed(options, "kicked", done, failed + missing)


def _delete(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    documents, missing = _chosen(options, stores)
    question = f"Delete {resend.counted(documents)} for ever, with the buried jobs?"
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
    return _summed(options, "deleted", done, failed + missing)


def _chosen(options: Options, stores: connections.Collections) -> tuple[list[dead.Document], int]:
    """Find what is meant, and count the ids that no record has; names them on standard error."""
    narrowed = bool(options.ids or options.slug or options.reason)
    if narrowed == options.all:
        raise UsageError("say which: ids, --slug or --reason, or --all by itself")
    wanted = dead.Filter(tuple(options.ids), options.slug, options.reason)
    found = dead.find(stores.dead, wanted)
    if not found and not options.ids:
        resend.say_nothing_fits(stores)
    return found, _missing(options, found)


def _missing(options: Options, found: list[dead.Document]) -> int:
    """Name the ids that no record has, as far as records are meant by ids; counts them."""
    missing = sorted(set(options.ids) - {str(each["_id"]) for each in found})
    for identity in missing:
        note(f"{identity}: {_NO_SUCH}")
    return len(missing)


def _summed(options: Options, verb: str, done: int, failed: int) -> int:
    if options.json:
        say_json({verb: done, "failed": failed})
    else:
        say(f"{verb} {done}, failed {failed}")
    return Exit.DONE if done and not failed else Exit.NEGATIVE
