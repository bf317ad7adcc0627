"""The arguments of `pause` and `resume`. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

import argparse
import math

from service.cli.arguments import Verbs, a_verb, offer_json

UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
SHORTEST_SECONDS = 0.001
LONGEST_SECONDS = 3_650 * 86_400.0


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
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = math.nan
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length of time: write 90s, 15m, 2h or 3d, at most ten years"
        )
    return seconds
