"""`detect`: which couriers may have a number."""

from __future__ import annotations

import argparse

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.client.catalogue import Candidate, Catalogue, Sign


def run(options: argparse.Namespace) -> int:
    """List the couriers, the likeliest first; 1 when none of them can be asked."""
    found = Catalogue(loaded(options).config).candidates(options.number)
    if options.json:
        for rank, each in enumerate(found, 1):
            say_json({"rank": rank, "slug": each.slug, "name": each.name, "why": _word(each)})
    elif found:
        rows = [(each.slug, each.name, each.meaning) for each in found]
        table(("slug", "courier", "why"), rows)
    else:
        say("No courier's numbers look like this.")
    asked = any(each.sign is not Sign.NO_MODULE for each in found)
    return Exit.DONE if asked else Exit.NEGATIVE


def _word(candidate: Candidate) -> str:
    return candidate.sign.name.lower()
