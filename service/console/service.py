"""`service`: where an account has webhooks sent; made, changed, paused, removed.

A new secret stands alone on standard output, so that it can be piped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from service import PROGRAM
from service.config import schema
from service.console import settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    Run,
    UsageError,
    add_account,
    add_actions,
    add_json,
    add_yes,
    from_one_on,
    lasting,
    named,
    seconds_of,
)
from service.console.output import agreed, moment, note, say, say_json, span, table, tell
from service.operator import audit, connections, relays, service_view, services

if TYPE_CHECKING:
    from service.operator.services import Made, Service
    from tracking.request import Account

EVERY = "all"
"""Takes a filter back."""

SETTABLE = (
    *("destination", "events", "slugs", "tags", "headers", "format", "concurrent"),
    *("per_second", "attempts", "timeout_seconds", "ordered"),
)
"""Options of `add` and `set`, by the names of what they set."""

INGEST = (
    *("handshake", "verify_token", "status", "body", "dedupe_header", "courier", "push_secret"),
    *("door_per_second", "door_bytes_per_second"),
)
"""Those of relay and courier services, by the names of what they set in `ingest`."""


def service_arguments(parser: Parser) -> None:
    """Add the actions of `service`."""
    actions = {
        "add": ("Make a service, and show its secret, this once.", _on_services(_add)),
        "list": ("List the services of an account.", _on_services(_list)),
        "show": ("Show all of a service but its secret, and how it does.", _on_services(_show)),
        "set": ("Change a service: what is not named stays.", _on_services(_set)),
        "pause": ("Let nothing be sent; what happens waits.", _on_services(_pause)),
        "resume": ("Let it go on, also where it was disabled.", _on_services(_resume)),
        "remove": ("Remove a service; what waits is cancelled.", _on_services(_remove)),
        "rotate": (
            "Make a new secret and show it; the old one signs on for a while.",
            _on_services(_rotate),
        ),
        "test": ("Send an event that says that it is a test.", _on_services(_test)),
        "key": ("Print a new key for [webhooks] keys.", _key),
        "seal": ("Encrypt all secrets by the first of [webhooks] keys.", settings.on_stores(_seal)),
    }
    for action, each in add_actions(parser, actions, lambda run: run).items():
        if action in {"key", "seal"}:
            _add_name_of_key(each, action)
            continue
        if action != "list":
            each.add_argument("name", type=named, metavar="NAME", help="1 to 20 of a-z 0-9")
        if action == "add":
            _add_new(each)
        if action in {"add", "set"}:
            _add_wishes(each)
        if action == "set":
            each.add_argument("--destination", metavar="URL", help="https://…")
        if action == "remove":
            add_yes(each)
        if action == "rotate":
            text = "how long the old secret signs on, like 90s, 15m, 2h or 3d; default: 1d"
            each.add_argument(
                "--keep", type=lasting, default=86_400.0, metavar="DURATION", help=text
            )
        add_account(each)
        add_json(each)


def _add_name_of_key(parser: Parser, action: str) -> None:
    if action == "key":
        text = "what it is called, A-Z a-z 0-9 _ -; default: the date"
        parser.add_argument("name", nargs="?", type=named, metavar="NAME", help=text)


def _add_new(parser: Parser) -> None:
    text = "https://…; of a courier service none is needed"
    parser.add_argument("destination", nargs="?", metavar="URL", help=text)
    text = (
        "webhook: hears of events; relay: delivers what other systems send to it; courier: to it a "
        "courier pushes; for ever; default: webhook"
    )
    parser.add_argument("--type", choices=("webhook", "relay", "courier"), help=text)


def _add_wishes(parser: Parser) -> None:
    for name, text in (
        ("events", "which events, several with commas, like parcel.delivered"),
        ("slugs", "only parcels of these couriers, several with commas"),
        ("tags", "only parcels with these tags, several with commas, like Exception"),
    ):
        whole = f"{text}; {EVERY}: no such filter"
        parser.add_argument(f"--{name}", type=_several, metavar=name.upper(), help=whole)
    text = "a header for each attempt, like 'X-From: tracking'; several times for several"
    parser.add_argument(
        "--header", dest="headers", type=_header, action="append", metavar="HEADER", help=text
    )
    none = parser.add_argument("--no-headers", dest="headers", action="store_const", const=[])
    none.help = "no header of its own"
    text = "how bodies are written and signed; default: standard"
    parser.add_argument("--format", choices=("standard", "aftership"), help=text)
    for option, what in (
        ("concurrent", "attempts at once"),
        ("per-second", "attempts that start in a second"),
        ("attempts", "attempts until a delivery is dead"),
    ):
        parser.add_argument(f"--{option}", type=from_one_on, metavar="NUMBER", help=what)
    parser.add_argument(
        "--timeout",
        dest="timeout_seconds",
        type=seconds_of,
        metavar="DURATION",
        help="how long an attempt may take",
    )
    parser.add_argument(
        "--ordered",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="one at a time, in the order of the events",
    )
    _add_ingest_wishes(parser)


def _add_ingest_wishes(parser: Parser) -> None:
    group = parser.add_argument_group("of relay and courier services")
    handshakes = ("meta", "slack", "graph", "okta", "none")
    text = "which sender's handshake is answered; default: none"
    group.add_argument("--handshake", choices=handshakes, help=text)
    for option, metavar, text in (
        ("verify-token", "TOKEN", "the token that a handshake must have; '': any"),
        ("dedupe-header", "HEADER", "a header by which the same request is known; '': none"),
        ("courier", "SLUG", "the courier that pushes"),
        ("push-secret", "SECRET", "the secret by which its pushes are verified; '': none"),
    ):
        group.add_argument(f"--{option}", metavar=metavar, help=text)
    group.add_argument("--answer", dest="body", metavar="TEXT", help="what senders are answered")
    for option, name, text in (
        ("answer-status", "status", "by which status; default: 202"),
        ("door-per-second", "door_per_second", "requests that each door takes in a second"),
        ("door-bytes-per-second", "door_bytes_per_second", "bytes of them"),
    ):
        group.add_argument(f"--{option}", dest=name, type=from_one_on, metavar="NUMBER", help=text)


def _several(text: str) -> list[str]:
    """Read words with commas; `all` is none of them: no filter."""
    words = [each.strip() for each in text.split(",") if each.strip()]
    if not words:
        raise argparse.ArgumentTypeError(f"it is empty: name some, or write {EVERY}")
    return [] if words == [EVERY] else words


def _header(text: str) -> tuple[str, str]:
    """Read a header."""
    name, colon, value = text.partition(":")
    if not (colon and name.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is no header: write 'NAME: VALUE'")
    return name.strip(), value.strip()


def _on_services(act: Callable[[services.Services, Options], int]) -> Run:
    return settings.on_stores(
        lambda options, config, stores: act(services.Services(config, stores), options)
    )


def _who(options: Options) -> tuple[audit.Operator, Account, str]:
    """Say who acts, on which service of which account."""
    return audit.Operator(), options.account, options.name


def _add(of: services.Services, options: Options) -> int:
    made = of.make(*_who(options), _wishes(options))
    words = f"{made.service.name} is a service of {options.account}"
    done = _say_secret(of, made, words, options)
    for each in _addresses(of, made.service) if not options.json else ():
        note(f"it takes requests at {each}")
    return done


def _list(of: services.Services, options: Options) -> int:
    found = of.of(options.account)
    if options.json:
        for each in found:
            say_json(_members(of, each))
        return Exit.DONE
    if not found:
        say(f"{options.account} has no services; `{PROGRAM} service add NAME URL` makes one")
        return Exit.DONE
    headers = ("service", "type", "state", "destination", "events", "couriers", "tags", "made")
    table(headers, [_row(each) for each in found])
    addresses = [(each.name, where) for each in found for where in _addresses(of, each)]
    if addresses:
        say("")
        table(("service", "takes requests at"), addresses)
    return Exit.DONE


def _row(each: Service) -> tuple[str, ...]:
    wanted = (each.wanted.events, each.wanted.slugs, each.wanted.tags)
    every = EVERY if each.type is services.ServiceType.WEBHOOK else ""
    filters = (", ".join(sorted(map(str, names))) or every for names in wanted)
    known = (each.name, each.type.value, each.state.value, each.destination)
    return (*known, *filters, moment(each.made_at))


def _addresses(of: services.Services, each: Service) -> list[str]:
    return relays.addresses_of(of.config, each)


def _show(of: services.Services, options: Options) -> int:
    told = service_view.whole_members(of, options.account, options.name)
    told = {"account": options.account} | told
    if options.json:
        say_json(told)
        return Exit.DONE
    days, ingest, errors = told.pop("days"), told.pop("ingest") or {}, told.pop("errors")
    for name, value in (told | {f"ingest.{each}": ingest[each] for each in ingest}).items():
        shown = value if isinstance(value, str) else _worded(value)
        say(f"{name:<16} {shown}".rstrip())
    if days:
        say("")
        shown_days = [each | {"day": f"{each['day']:%Y-%m-%d}"} for each in days]
        table(tuple(days[0]), [tuple(each.values()) for each in shown_days])
    if errors:
        say("")
        say(f"the last {len(errors)} attempts that failed:")
        shown_errors = [each | {"at": moment(each["at"])} for each in errors]
        table(tuple(errors[0]), [tuple(each.values()) for each in shown_errors])
    return Exit.DONE


def _worded(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return moment(value) if hasattr(value, "astimezone") else str(value)


def _set(of: services.Services, options: Options) -> int:
    wishes = _wishes(options)
    if not wishes:
        raise UsageError("say what is to be changed: --destination, --events …, see --help")
    return _say_changed(of, of.change(*_who(options), wishes), "is changed", options)


def _pause(of: services.Services, options: Options) -> int:
    made = of.change(*_who(options), {"state": "paused"})
    return _say_changed(of, made, "is paused: what happens waits until it is resumed", options)


def _resume(of: services.Services, options: Options) -> int:
    made = of.change(*_who(options), {"state": "active"})
    return _say_changed(of, made, "goes on within seconds", options)


def _remove(of: services.Services, options: Options) -> int:
    found = of.named(options.account, options.name)
    receiver = found.destination or "nobody"
    question = f"Remove the service {found.name} ({receiver}), and cancel what waits?"
    if not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    of.delete(*_who(options))
    words = f"{found.name} is removed: nothing more is sent to {receiver}"
    members = {"account": options.account, "service": found.name, "removed": True}
    return tell(members, words, as_json=options.json)


def _rotate(of: services.Services, options: Options) -> int:
    made = of.rotate(*_who(options), options.keep)
    words = f"the new secret of {made.service.name}; the old one signs, too, for "
    return _say_secret(of, made, words + span(options.keep), options)


def _test(of: services.Services, options: Options) -> int:
    put = of.test(*_who(options))
    words = f"on its way; `{PROGRAM} delivery show {put.id}` tells what came of it"
    return tell({"service": options.name, "delivery": put.id}, words, as_json=options.json)


def _key(options: Options) -> int:
    """Print a key; no server is asked."""
    say(services.new_sealing_key(options.name))
    note("set it as TRACKER_WEBHOOKS__KEYS, in front of the keys that are set, for api and workers")
    return Exit.DONE


def _seal(_: Options, config: schema.Config, stores: connections.Collections) -> int:
    """Encrypt secrets again, so that an older key can be taken out."""
    sealed, closed = services.seal_again(config, stores, audit.Operator())
    note(f"encrypted by the first key: {sealed}")
    if not closed:
        return Exit.DONE
    note(f"opened by none of the keys: {closed}; set the key of before behind the first one, too")
    return Exit.NEGATIVE


def _wishes(options: Options) -> dict[str, Any]:
    """Read what is to be set; None is what no option named."""
    given = {name: getattr(options, name) for name in SETTABLE}
    given["type"] = getattr(options, "type", None)
    if given["headers"] is not None:
        given["headers"] = dict(given["headers"])
    named = {name: getattr(options, name) for name in INGEST}
    ingest = {name.removeprefix("door_"): each for name, each in named.items() if each is not None}
    if ingest.get("handshake") == "none":
        ingest["handshake"] = ""
    given["ingest"] = ingest or None
    return {name: value for name, value in given.items() if value is not None}


def _say_secret(of: services.Services, made: Made, words: str, options: Options) -> int:
    if options.json:
        say_json(
            {**_members(of, made.service), "secret": made.secret, "hears_from": made.hears_from}
        )
        return Exit.DONE
    say(made.secret or "")
    note(f"{words}; its secret is shown this once")
    if made.hears_from:
        note(f"not all workers know it yet: it surely hears from {moment(made.hears_from)} on")
    return Exit.DONE


def _say_changed(of: services.Services, made: Made, words: str, options: Options) -> int:
    return tell(_members(of, made.service), f"{made.service.name} {words}", as_json=options.json)


def _members(of: services.Services, service: Service) -> dict[str, Any]:
    return {"account": service.account, **service_view.members(of, service)}
