"""The arguments of `purge`. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

from service.cli.arguments import Verbs, a_verb, offer_json


def offer_purging(verbs: Verbs) -> None:
    """Add the verb."""
    made = a_verb(
        verbs,
        "purge",
        "Remove what was kept for longer than the settings say, now; workers do it by themselves.",
    )
    made.add_argument("--dry-run", action="store_true", help="count it only, and remove nothing")
    offer_json(made)
