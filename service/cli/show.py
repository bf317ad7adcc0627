"""`show`: what is known about a number and where its request stands, or about a request by id."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

from limits.view import Place
from service.cli.catalogue import Catalogue
from service.cli.exits import Exit, UsageError
from service.cli.paper import moment, say, say_json, span, table
from service.cli.settings import loaded
from service.cli.stores import collections_of, view_of
from service.cli.waiting import summary
from service.config.schema import Config
from service.store.connection import Document
from service.store.queries import find_tracking
from tracking.errors import LimitsDown
from tracking.operation import State
from tracking.request import Number, Slug


def run(options: argparse.Namespace) -> int:
    """Show it; 1 when nothing is known."""
    setting = loaded(options)
    if options.id:
        if options.slug:
            raise UsageError("give either SLUG NUMBER or --id ID")
        return asyncio.run(_show_operation(options, setting.config))
    if not options.number:
        raise UsageError("say which: SLUG NUMBER, or --id ID")
    slug, number = Catalogue(setting).named(options.slug, options.number)
    with collections_of(setting.config) as stores:
        document = find_tracking(stores.tracking, slug, number)
    try:
        place, away = asyncio.run(_place(setting.config, slug, number)), None
    except LimitsDown as error:
        # What is stored is worth showing all the same.
        place, away = None, error
    if options.json:
        place_json = dataclasses.asdict(place) if place else None
        say_json({"slug": slug, "number": number, "tracking": document, "place": place_json})
    else:
        _print(f"{slug} {number}", document, place)
    if away:
        raise away
    return Exit.DONE if document or place else Exit.NEGATIVE


async def _show_operation(options: argparse.Namespace, config: Config) -> int:
    async with view_of(config) as view:
        operation = await view.operation(options.id)
    if options.json:
        say_json({"id": options.id, "operation": operation})
    elif operation is None:
        say(f"{options.id}: still in the tube, ended more than a day ago, or never put")
    else:
        say(f"{options.id}: {operation['status']}  {summary(operation)}".rstrip())
        for name in ("tracking", "startedAt", "finishedAt"):
            if operation.get(name):
                say(f"  {name:<11} {operation[name]}")
    return Exit.NEGATIVE if operation is None else Exit.DONE


async def _place(config: Config, slug: Slug, number: Number) -> Place | None:
    async with view_of(config) as view:
        return await view.place(slug, number)


def _print(name: str, document: Document | None, place: Place | None) -> None:
    if document is None:
        say(f"{name}: no answer is stored")
    else:
        say(f"{name}: {document.get('tag')} ({document.get('subtag')})")
        for label, text in _facts(document):
            if text:
                say(f"  {label:<12} {text}")
    if place is not None:
        say(f"  {'request':<12} {standing(place)}")
    checkpoints = document.get("checkpoints", []) if document else []
    if checkpoints:
        say("")
        table(
            ("time", "place", "message", "status"), [_row(each) for each in reversed(checkpoints)]
        )


def _facts(document: Document) -> Iterator[tuple[str, str]]:
    yield "delivered", str(document.get("delivered_at") or "")
    yield "expected", str(document.get("expected_delivery") or "")
    yield "signed by", str(document.get("signed_by") or "")
    yield "checked", _ago(document.get("last_checked_at"))
    yield "next check", moment(document.get("next_check_at"))
    if error := document.get("error"):
        at = _ago(error.get("at"))
        yield "last error", f"{error.get('code')}: {error.get('message')} ({at})"


def standing(place: Place) -> str:
    """Word where a request stands."""
    if place.state is State.RUNNING:
        return "the courier is being asked"
    attempts = f", attempt {place.attempts + 1}" if place.attempts else ""
    eta = f", in about {span(place.eta_seconds)}" if place.eta_seconds is not None else ""
    match place.list:
        case "behind":
            return "waits for the call that runs for this number"
        case "later":
            return f"is tried again{eta}{attempts}"
    ahead = "" if place.ahead is None else f", {place.ahead} ahead"
    return f"waits in the {place.list} list{ahead}{eta}{attempts}"


def _row(checkpoint: dict[str, Any]) -> list[str]:
    names = ("city", "state", "country_name")
    place = ", ".join(str(checkpoint[name]) for name in names if checkpoint.get(name))
    time = f"{checkpoint.get('checkpoint_time', '')}{checkpoint.get('checkpoint_offset') or ''}"
    place = place or str(checkpoint.get("location") or "")
    return [time, place, str(checkpoint.get("message", "")), str(checkpoint.get("tag", ""))]


def _ago(when: dt.datetime | None) -> str:
    if when is None:
        return ""
    return f"{moment(when)}, {span((dt.datetime.now(dt.UTC) - when).total_seconds())} ago"
