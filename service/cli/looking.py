"""The arguments of `info` and `stats`. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

from service.cli.arguments import Verbs, a_verb, named, offer_json, seconds_of
from service.cli.pausing import lasting


def offer_looking(verbs: Verbs) -> None:
    """Add the verbs `info` and `stats`."""
    _info(verbs)
    _stats(verbs)


def _info(verbs: Verbs) -> None:
    made = a_verb(
        verbs,
        "info",
        "Show what runs and waits per courier, what the tubes hold, and which workers live.",
    )
    made.add_argument(
        "slug", nargs="?", type=named, metavar="SLUG", help="only this courier; default: all"
    )
    made.add_argument(
        "--watch",
        nargs="?",
        type=seconds_of,
        const=2.0,
        metavar="SECONDS",
        help="show again every SECONDS until Ctrl-C; default: 2",
    )
    made.add_argument(
        "--running",
        action="store_true",
        help="list the calls in flight instead, the oldest first, also those whose worker vanished",
    )
    offer_json(made)


def _stats(verbs: Verbs) -> None:
    made = a_verb(
        verbs,
        "stats",
        "Draw what happened lately: operations by their ends, calls, waiting and call times.",
    )
    made.add_argument("--slug", type=named, help="only of this courier; default: of all together")
    made.add_argument(
        "--last",
        type=lasting,
        default=3_600.0,
        metavar="DURATION",
        help="so long, like 30m, 24h or 90d; default: 1h. Up to an hour is counted by 10 s, "
        "with --slug and up to a week by 10 minutes, and more by days (UTC)",
    )
    offer_json(made)
