"""`pause`: nobody calls a courier until a named time, or until `resume`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, span
from service.cli.settings import loaded
from service.client.audit import Document, recorded_where_possible
from service.client.catalogue import Catalogue
from service.client.pause import pause
from tracking.errors import ResultsDown


def run(options: argparse.Namespace) -> int:
    """Pause; a pause by hand that is there already is replaced."""
    config = loaded(options).config
    slug, _ = Catalogue(config).resolve(options.slug)
    target = {"slug": slug, "seconds": options.lasts, "reason": options.why}

    def act(_: Document) -> None:
        asyncio.run(pause(config, slug, options.lasts, options.why))

    _, unrecorded = recorded_where_possible(config, "pause", target, act)
    say_unrecorded(unrecorded)
    if options.json:
        say_json({"slug": slug, "paused": True, "seconds": options.lasts, "why": options.why})
        return Exit.DONE
    lasts = f"for {span(options.lasts)}" if options.lasts else "until it is resumed"
    say(f"{slug} is paused {lasts}; calls that run are not cut off, and requests wait")
    say(f"`python worker.py resume {slug}` lets it go on")
    return Exit.DONE


def say_unrecorded(why: ResultsDown | None) -> None:
    """Say of what was done that no record of it is whole; nothing where one is."""
    if why is not None:
        sys.stderr.write(f"worker.py: it is done; audit has no whole record of it: {why}\n")
