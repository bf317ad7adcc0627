"""`limits`: what couriers allow, shown and changed while workers run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from service import PROGRAM
from service.console import settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_actions,
    add_json,
)
from service.console.output import say, say_json, table
from service.operator import audit, catalogue, connections, limits

if TYPE_CHECKING:
    from service.config.schema import Config
    from tracking.request import Slug


def limits_arguments(parser: Parser) -> None:
    """Add the actions of `limits`."""
    actions = {
        "show": ("Show the limits in force, and what was set over config.toml.", run),
        "set": ("Set limits over config.toml: they hold at once, for all workers.", run),
        "reset": ("Let config.toml hold again.", run),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        each.set_defaults(action=action)
        optional = "?" if action == "show" else None
        each.add_argument("slug", metavar="SLUG", nargs=optional, help="the courier")
        if action == "set":
            names = (
                "per_second, concurrent, per_hour, per_day, together (the numbers in a call); "
                "per_hour=none: no such quota"
            )
            each.add_argument("limits", metavar="NAME=NUMBER", nargs="+", help=names)
        if action == "reset":
            each.add_argument(
                "limits", metavar="NAME", nargs="*", help="only these limits; default: all"
            )
        add_json(each)


def run(options: Options, config: Config, stores: connections.Collections) -> int:
    """Show, set or reset; 1 where workers do not go by what is shown."""
    couriers = catalogue.Catalogue(config)
    slugs = [couriers.resolve(options.slug)[0]] if options.slug else list(couriers.slugs)
    wishes = _wishes(options)
    if isinstance(wishes, Mapping):
        _check_together(config, slugs[0], wishes)
    if wishes is None:
        return _say(limits.limits_of(config, stores, slugs), as_json=options.json)
    target = {"slug": slugs[0], "limits": wishes}
    with audit.recorded(stores.audit, audit.Operator(), f"limits {options.action}", target):
        found = limits.change(config, stores, slugs[0], wishes)
    code = _say([found], as_json=options.json)
    if not options.json:
        say("new calls go by it now; a quota counts the calls that start from now on")
    return code


def _wishes(options: Options) -> limits.Own | list[str] | None:
    try:
        if options.action == "set":
            return limits.read_wishes(options.limits)
        return limits.named_limits(options.limits) if options.action == "reset" else None
    except ValueError as error:
        raise UsageError(str(error)) from error


def _check_together(config: Config, slug: Slug, wishes: limits.Own) -> None:
    try:
        limits.check_together(config, slug, wishes)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _say(found: Sequence[limits.CourierLimits], *, as_json: bool) -> int:
    if as_json:
        for each in found:
            say_json(limits.members(each))
    else:
        rows = [(each.slug, *(_worded(each, name) for name in limits.SETTABLE)) for each in found]
        table(("courier", *limits.SETTABLE), rows)
        if any(each.set for each in found):
            say(f"* set over config.toml; `{PROGRAM} limits reset SLUG` takes that back")
    if all(each.is_known for each in found):
        return Exit.DONE
    if not as_json:
        away = any(each.is_known is None for each in found)
        why = "Redis does not answer" if away else "Redis has not heard of the newest change"
        say(f"{why}: who calls may go by older ones; repeat the change to be sure")
    return Exit.NEGATIVE


def _worded(each: limits.CourierLimits, name: str) -> str:
    value = each.in_force[name]
    return ("none" if value is None else f"{value:,}") + ("*" if name in each.set else "")
