"""The arguments of `pause` and `resume`. Imports nothing of weight, so that `--help` is instant."""

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
