"""`pause`: nobody calls a courier until a named time, or until `resume`."""

from __future__ import annotations

import argparse
import asyncio

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, span
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.pause import pause


def run(options: argparse.Namespace) -> int:
    """Pause; a pause by hand that is there already is replaced."""
    config = loaded(options).config
    slug, _ = Catalogue(config).resolve(options.slug)
    asyncio.run(pause(config, slug, options.lasts, options.why))
    if options.json:
        say_json({"slug": slug, "paused": True, "seconds": options.lasts, "why": options.why})
        return Exit.DONE
    lasts = f"for {span(options.lasts)}" if options.lasts else "until it is resumed"
    say(f"{slug} is paused {lasts}; calls that run are not cut off, and requests wait")
    say(f"`python worker.py resume {slug}` lets it go on")
    return Exit.DONE
