"""`cancel`: what waits for a number ends as CANCELLED."""

from __future__ import annotations

import argparse
import asyncio

from service.cli.catalogue import Catalogue
from service.cli.exits import Exit
from service.cli.paper import say, say_json
from service.cli.settings import loaded
from service.cli.stores import canceller_of
from service.config.schema import Config
from tracking.request import Number, Slug


def run(options: argparse.Namespace) -> int:
    """Cancel; 1 when nothing waited."""
    setting = loaded(options)
    slug, number = Catalogue(setting).named(options.slug, options.number)
    cancelled = asyncio.run(_cancel(setting.config, slug, number, options.id))
    if options.json:
        say_json({"slug": slug, "number": number, "cancelled": cancelled})
    elif cancelled:
        say(f"cancelled {cancelled} for {slug} {number}")
    else:
        say(f"nothing waits for {slug} {number}; what runs already is not cut off")
    return Exit.DONE if cancelled else Exit.NEGATIVE


async def _cancel(config: Config, slug: Slug, number: Number, identity: str | None) -> int:
    async with canceller_of(config) as canceller:
        return await canceller.cancel(slug, number, identity)
