"""`dead`: requests that got no answer, listed, shown, put again or deleted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from service.cli.exit_codes import Exit, UsageError
from service.cli.output import agreed, moment, say, say_json, table
from service.cli.resend import resend_all, say_nothing_fits
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.connections import Collections, collections_of
from service.client.dead import (
    Document,
    Filter,
    count_by_reason,
    delete_dead,
    find,
)
from service.client.producer import Producer
from service.client.resend import Meant, of_record
from service.config.schema import Config
from tracking.errors import MalformedJob, StoreError

DETAIL_SHOWN = 60
_NO_SUCH = "no dead request has this id, and all else that is asked for; `dead list` shows them"

Action = Callable[[argparse.Namespace, Config, Collections], int]


def run(options: argparse.Namespace) -> int:
    """Do what is asked; 1 when nothing was found or not all of it was done."""
    setting = loaded(options)
    if getattr(options, "slug", None):
        options.slug = _meant(options.slug, Catalogue(setting.config))
    with collections_of(setting.config) as stores:
        return _ACTIONS[options.action](options, setting.config, stores)


def _meant(text: str, couriers: Catalogue) -> str:
    """Resolve an alias. A courier that nobody has is no error: requests for it die too."""
    try:
        return couriers.resolve(text)[0]
    except MalformedJob as error:
        sys.stderr.write(f"worker.py: {error.detail}\n")
        return text


def _list(options: argparse.Namespace, _: Config, stores: Collections) -> int:
    wanted = Filter(slug=options.slug, reason=options.reason)
    documents = find(stores.dead, wanted, options.limit)
    if options.json:
        for document in documents:
            say_json(document)
        return Exit.DONE
    reasons = count_by_reason(stores.dead)
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


def _row(document: Document) -> list[str]:
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


def _show(options: argparse.Namespace, _: Config, stores: Collections) -> int:
    (identity,) = options.ids
    documents = find(stores.dead, Filter(ids=(identity,)))
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


def _kick(options: argparse.Namespace, config: Config, stores: Collections) -> int:
    documents, missing = _chosen(options, stores)
    # What is named by its id is meant; how many a filter means, nobody knows before.
    named = options.yes or bool(options.ids)
    if documents and not agreed(f"Put {_count(documents)} again?", yes=named):
        return Exit.NEGATIVE

    def line(each: Meant, identity: str | None) -> str:
        kicked = {"_id": (each.record or {})["_id"], "kicked": True, "id": identity}
        return json.dumps(kicked) + "\n" if options.json else ""

    done, failed = resend_all(list(map(of_record, documents)), config, stores, line)
    return _summed(options, "kicked", done, failed + missing)


def _delete(options: argparse.Namespace, config: Config, stores: Collections) -> int:
    documents, missing = _chosen(options, stores)
    question = f"Delete {_count(documents)} for ever, with the buried jobs?"
    if documents and not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    done, failed = 0, 0
    with Producer(config.beanstalkd.servers) as producer:
        for document in documents:
            try:
                done += delete_dead(document, stores.dead, producer)
            except StoreError as error:
                failed += 1
                sys.stderr.write(f"worker.py: {document['_id']}: {error}\n")
    return _summed(options, "deleted", done, failed + missing)


def _chosen(options: argparse.Namespace, stores: Collections) -> tuple[list[Document], int]:
    """Find what is meant, and count the ids that no record has; names them on standard error."""
    narrowed = bool(options.ids or options.slug or options.reason)
    if narrowed == options.all:
        raise UsageError("say which: ids, --slug or --reason, or --all by itself")
    wanted = Filter(tuple(options.ids), options.slug, options.reason)
    found = find(stores.dead, wanted)
    if not found and not options.ids:
        say_nothing_fits(stores)
    return found, _missing(options, found)


def _missing(options: argparse.Namespace, found: list[Document]) -> int:
    """Name the ids that no record has, as far as records are meant by ids; counts them."""
    missing = sorted(set(options.ids) - {str(each["_id"]) for each in found})
    for identity in missing:
        sys.stderr.write(f"worker.py: {identity}: {_NO_SUCH}\n")
    return len(missing)


def _count(documents: list[Document]) -> str:
    return "1 request" if len(documents) == 1 else f"{len(documents)} requests"


def _summed(options: argparse.Namespace, verb: str, done: int, failed: int) -> int:
    if options.json:
        say_json({verb: done, "failed": failed})
    else:
        say(f"{verb} {done}, failed {failed}")
    return Exit.DONE if done and not failed else Exit.NEGATIVE


_ACTIONS: dict[str, Action] = {"list": _list, "show": _show, "kick": _kick, "delete": _delete}
