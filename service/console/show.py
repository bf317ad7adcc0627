"""`show`: what is known about a number and where its request stands, or about a request by id."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from service import PROGRAM
from service.config import schema
from service.console import settings, wording
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_account,
    add_json,
    named,
)
from service.console.output import moment, say, say_json, span, table
from service.operator import catalogue, dead, look
from tracking.errors import LimitsBroken, LimitsDown
from tracking.line import slug_of
from tracking.operation import State
from tracking.request import FIELDS_PREFIX, operation_id

LISTED_MOST = 20
"""Requests that are listed for people."""


def show_arguments(parser: Parser) -> None:
    """Add the arguments of `show`."""
    parser.add_argument("slug", type=named, nargs="?", metavar="SLUG", help="the courier")
    text = "the tracking number"
    parser.add_argument("number", type=named, nargs="?", metavar="NUMBER", help=text)
    text = "show one request instead, by its id: as it was put with, or as SLUG NUMBER lists it"
    parser.add_argument("--id", type=named, help=text)
    add_account(parser, "whose parcel or request")
    add_json(parser)


def run_show(options: Options) -> int:
    """Show it; 1 when nothing is known."""
    config = settings.loaded(options).config
    couriers = catalogue.Catalogue(config)
    if options.id:
        if options.slug:
            raise UsageError("give either SLUG NUMBER or --id ID")
        return _show_operation(options, config, couriers)
    if not options.number:
        raise UsageError("say which: SLUG NUMBER, or --id ID")
    slug, number = couriers.parcel(options.slug, options.number)
    place = seen = away = None
    operations: Sequence[dict[str, Any]] = ()
    try:
        found = asyncio.run(look.parcel_of(config, slug, number))
        place, seen, operations = found.place, found.seen, found.operations
    except (LimitsBroken, LimitsDown) as error:
        # What is stored is worth showing all the same.
        away = error
    # After them: what one has stored that has ended is shown.
    document = look.stored_tracking(config, slug, number, options.account)
    operations = look.with_archived(config, slug, number, operations)
    if not _is_kept(place, seen, document):
        seen = None
    if options.json:
        place_json = dataclasses.asdict(place) if place else None
        line: dict[str, Any] = {"slug": slug, "number": number, "tracking": document}
        line |= {"place": place_json, "operations": operations}
        say_json(line | (look.members(seen) if seen else {}))
    else:
        binding = _binding(seen and look.kept_by(place, seen), couriers)
        _print(f"{slug} {number}", document, place, binding)
        _list_operations(operations)
    if away:
        raise away
    return Exit.DONE if document or place or operations else Exit.NEGATIVE


def _is_kept(
    place: look.Place | None, seen: look.LineSnapshot | None, document: look.Document | None
) -> bool:
    """Whether what binds the courier is what keeps this request, which may be in the tube still."""
    if place:
        return place.state is State.WAITING
    return document is None and seen is not None and seen.bound_by == "no_worker"


def _binding(seen: look.LineSnapshot | None, couriers: catalogue.Catalogue) -> str:
    if not seen:
        return ""
    missing = couriers.lacking(slug_of(seen.line)) if seen.paused_why == "no_credentials" else ""
    return ". ".join(filter(None, (wording.reason(seen), missing)))


def _show_operation(options: Options, config: schema.Config, couriers: catalogue.Catalogue) -> int:
    identity = operation_id(options.account, options.id)
    found = asyncio.run(look.operation_of(config, identity))
    operation, place, seen = found.operation, found.place, found.seen
    binding = _binding(seen and look.kept_by(place, seen), couriers)
    if found.nobody:
        binding = wording.NOBODY
    if options.json:
        line = {"id": options.id, "operation": operation}
        line |= {"place": dataclasses.asdict(place)} if place else {}
        line |= {"dead": dead.shown(found.dead)} if found.dead else {}
        say_json(
            line | (look.members(seen) if seen else {"bound_by": "no_worker"} if binding else {})
        )
    elif found.dead:
        _print_dead(options.id, found.dead)
    elif operation is None:
        say(f"{options.id}: still in the tube, purged long after its end, or never put")
    else:
        say(f"{options.id}: {operation['status']}  {wording.summary(operation)}".rstrip())
        for name in ("tracking", "startedAt", "finishedAt", "resend_of", "webhook"):
            if operation.get(name):
                say(f"  {name:<11} {operation[name]}")
        if place:
            say(f"  {'request':<11} {wording.stands(place)}")
        for each in operation.get("attempts") or ():
            status = f"HTTP {each['http_status']}, " if each["http_status"] else ""
            say(f"  {'attempt':<11} {each['at']}  {each['outcome']} ({status}{each['ms']} ms)")
    if binding and not options.json:
        say(f"  {'bound by':<11} {binding}")
    return Exit.NEGATIVE if operation is None and found.dead is None else Exit.DONE


def _print_dead(identity: str, record: look.Document) -> None:
    say(f"{identity}: dead  {record['reason']}: {record['detail']}")
    if record["slug"]:
        say(f"  {'tracking':<11} {record['slug']}:{record['number']}")
    again = f"`{PROGRAM} resend --id {identity}` asks again"
    say(f"  {'recorded':<11} {moment(record['at'])}; {again}")


def _print(
    name: str, document: look.Document | None, place: look.Place | None, binding: str
) -> None:
    if document is None:
        say(f"{name}: no answer is stored")
    else:
        say(f"{name}: {document.get('tag')} ({document.get('subtag')})")
        for label, text in _facts(document):
            if text:
                say(f"  {label:<12} {text}")
    if place is not None:
        say(f"  {'request':<12} {wording.stands(place)}")
    if binding:
        say(f"  {'bound by':<12} {binding}")
    checkpoints = document.get("checkpoints", []) if document else []
    if checkpoints:
        say("")
        table(
            ("time", "place", "message", "status"), [_row(each) for each in reversed(checkpoints)]
        )


def _list_operations(operations: Sequence[dict[str, Any]]) -> None:
    """List the newest requests; how one ended that is not archived may be forgotten."""
    if not operations:
        return
    say("")
    rows = [
        [
            each["id"],
            each["status"] or "ended",
            each["startedAt"] or "",
            each["finishedAt"] or "",
            wording.summary(each),
        ]
        for each in operations[:LISTED_MOST]
    ]
    table(("request", "state", "started", "finished", "outcome"), rows)
    if (more := len(operations) - LISTED_MOST) > 0:
        say(f"and {more} before these: --json lists up to 1,000")


def _facts(document: look.Document) -> Iterator[tuple[str, str]]:
    yield "delivered", str(document.get("delivered_at") or "")
    yield "expected", str(document.get("expected_delivery") or "")
    yield "signed by", str(document.get("signed_by") or "")
    yield "proof", str(document.get("proof_of_delivery") or "")
    yield "service", str(document.get("service") or "")
    yield "reference", str(document.get("reference") or "")
    yield "asked with", ", ".join(f"{name} {text}" for name, text in _asked_with(document))
    alone = document.get("asked_alone")
    yield "asked", "alone, as answers for several numbers leave it out" if alone else ""
    yield "weight", _weight(document.get("weight_grams"))
    yield "parcels", ", ".join(document.get("sub_parcels") or ())
    yield "checked", _ago(document.get("last_checked_at"))
    yield "next check", moment(document.get("next_check_at"))
    if error := document.get("error"):
        at = _ago(error.get("at"))
        yield "last error", f"{error.get('code')}: {error.get('message')} ({at})"


def _asked_with(document: look.Document) -> Iterator[tuple[str, str]]:
    for name, text in (document.get("fields") or {}).items():
        yield name.removeprefix(FIELDS_PREFIX), text


def _weight(in_grams: int | None) -> str:
    return f"{in_grams / 1000:g} kg" if in_grams else ""


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
