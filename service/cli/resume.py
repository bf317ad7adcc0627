"""`resume`: a courier is called again, whether somebody paused it or its calls failed."""

from __future__ import annotations

import argparse
import asyncio

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json
from service.cli.pause import say_unrecorded
from service.cli.settings import loaded
from service.cli.standing import NO_CREDENTIALS
from service.client.audit import Document, recorded_where_possible
from service.client.catalogue import Catalogue
from service.client.pause import Resumed, resume


def run(options: argparse.Namespace) -> int:
    """Resume; 1 when nothing had stopped it."""
    config = loaded(options).config
    couriers = Catalogue(config)
    slug, _ = couriers.resolve(options.slug)

    def act(outcome: Document) -> Resumed:
        ended = asyncio.run(resume(config, slug))
        outcome |= {"by_hand": ended.by_hand, "why": ended.why}
        return ended

    ended, unrecorded = recorded_where_possible(config, "resume", {"slug": slug}, act)
    say_unrecorded(unrecorded)
    if options.json:
        say_json({"slug": slug, "by_hand": ended.by_hand, "why": ended.why})
    else:
        say(_told(slug, ended))
        if ended.why == NO_CREDENTIALS and (missing := couriers.lacking(slug)):
            say(f"it stops again with its next call: {missing}; set them, then restart the workers")
    return Exit.DONE if ended else Exit.NEGATIVE


def _told(slug: str, ended: Resumed) -> str:
    if not ended:
        return f"{slug} was not paused; `python worker.py info` names what binds it"
    whys = ("by hand" if ended.by_hand else "", ended.why)
    return f"{slug} goes on within seconds; it was paused: {', '.join(filter(None, whys))}"
