"""`limits`: what couriers allow, shown and changed while workers run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from service.cli.exit_codes import Exit, UsageError
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.client.audit import Operator, recorded
from service.client.catalogue import Catalogue
from service.client.connections import collections_of
from service.client.limits import (
    SETTABLE,
    CourierLimits,
    Own,
    change,
    limits_of,
    members,
    named_limits,
    read_wishes,
)


def run(options: argparse.Namespace) -> int:
    """Show, set or reset; 1 where workers do not go by what is shown."""
    config = loaded(options).config
    couriers = Catalogue(config)
    slugs = [couriers.resolve(options.slug)[0]] if options.slug else list(couriers.slugs)
    wishes = _wishes(options)
    with collections_of(config) as stores:
        if wishes is None:
            return _say(limits_of(config, stores, slugs), as_json=options.json)
        target = {"slug": slugs[0], "limits": wishes}
        with recorded(stores.audit, Operator(), f"limits {options.action}", target):
            found = change(config, stores, slugs[0], wishes)
    code = _say([found], as_json=options.json)
    if not options.json:
        say("new calls go by it now; a quota counts the calls that start from now on")
    return code


def _wishes(options: argparse.Namespace) -> Own | list[str] | None:
    try:
        if options.action == "set":
            return read_wishes(options.limits)
        return named_limits(options.limits) if options.action == "reset" else None
    except ValueError as error:
        raise UsageError(str(error)) from error


def _say(found: Sequence[CourierLimits], *, as_json: bool) -> int:
    if as_json:
        for each in found:
            say_json(members(each))
    else:
        rows = [(each.slug, *(_worded(each, name) for name in SETTABLE)) for each in found]
        table(("courier", *SETTABLE), rows)
        if any(each.set for each in found):
            say("* set over config.toml; `python worker.py limits reset SLUG` takes that back")
    if all(each.is_known for each in found):
        return Exit.DONE
    if not as_json:
        away = any(each.is_known is None for each in found)
        why = "Redis does not answer" if away else "Redis has not heard of the newest change"
        say(f"{why}: who calls may go by older ones; repeat the change to be sure")
    return Exit.NEGATIVE


def _worded(each: CourierLimits, name: str) -> str:
    value = each.in_force[name]
    return ("none" if value is None else f"{value:,}") + ("*" if name in each.set else "")
