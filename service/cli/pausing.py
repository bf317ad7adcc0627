"""The arguments of `pause`, `resume`, `limits`. Imports nothing of weight: `--help` is instant."""

from __future__ import annotations

import argparse

from service.cli.arguments import Verbs, a_verb, offer_json
from service.client.duration import read_duration


def offer_pausing(verbs: Verbs) -> None:
    """Add both verbs."""
    made = a_verb(verbs, "pause", "Pause a courier: nobody calls it, and its requests wait.")
    made.add_argument("slug", metavar="SLUG", help="the courier")
    made.add_argument(
        "--for",
        dest="lasts",
        type=lasting,
        metavar="DURATION",
        help="so long, like 90s, 15m, 2h or 3d; default: until it is resumed",
    )
    made.add_argument("--why", default="", metavar="TEXT", help="the reason, which `info` shows")
    offer_json(made)
    made = a_verb(
        verbs,
        "resume",
        "Let a courier that is paused be called again, at once.",
    )
    made.add_argument("slug", metavar="SLUG", help="the courier")
    offer_json(made)


def offer_limits(verbs: Verbs) -> None:
    """Add the verb."""
    made = a_verb(verbs, "limits", "Show or change a courier's limits while workers run.")
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)
    texts = {
        "show": "Show the limits in force, and what was set over config.toml.",
        "set": "Set limits over config.toml: they hold at once, for all workers.",
        "reset": "Let config.toml hold again.",
    }
    for action, text in texts.items():
        each = a_verb(actions, action, text, module="limits")
        each.set_defaults(action=action)
        optional = "?" if action == "show" else None
        each.add_argument("slug", metavar="SLUG", nargs=optional, help="the courier")
        if action == "set":
            names = "per_second, concurrent, per_hour, per_day; per_hour=none: no such quota"
            each.add_argument("limits", metavar="NAME=NUMBER", nargs="+", help=names)
        if action == "reset":
            each.add_argument(
                "limits", metavar="NAME", nargs="*", help="only these limits; default: all"
            )
        offer_json(each)


def lasting(text: str) -> float:
    """Read a length of time in seconds, like `90s`; a bare number is seconds."""
    try:
        return read_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def aged(text: str) -> float:
    """Read the age of what is to be cancelled: without a unit, 2026 may be meant as a year."""
    if text[-1:].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: write 90s, 15m, 2h or 3d")
    return lasting(text)
