"""`cancel`: what waits for a number ends as CANCELLED."""

from __future__ import annotations

import argparse
import asyncio
import sys

from limits.cancelling import Cancelled, Kept
from service.cli.catalogue import Catalogue
from service.cli.exits import Exit
from service.cli.paper import say, say_json
from service.cli.settings import loaded
from service.cli.stores import canceller_of
from service.config.schema import Config
from tracking.request import Number, Slug

_KEPT = {
    Kept.ELSEWHERE: "{id} is not a request for {parcel}, so nothing was cancelled; "
    "write: cancel {detail} --id {id}",
    Kept.RUNNING: "{id} is with the courier now; a call that runs is not cut off",
    Kept.ENDED: "{id} has already ended: {detail}",
    Kept.UNKNOWN: "no request with the id {id} waits for {parcel}; check the id, or cancel again "
    "once a worker has taken the job from the tube",
}


def run(options: argparse.Namespace) -> int:
    """Cancel; 1 when nothing was cancelled, 2 when the id is that of another parcel."""
    setting = loaded(options)
    slug, number = Catalogue(setting).named(options.slug, options.number)
    identity = options.id or ""
    came = asyncio.run(_cancel(setting.config, slug, number, identity))
    if options.json:
        line = {"slug": slug, "number": number, "cancelled": came.operations}
        say_json(line | ({"id": identity} if identity else {}) | _kept(came))
    elif came.kept is not Kept.ELSEWHERE:
        say(told(came, f"{slug} {number}", identity))
    if came.kept is Kept.ELSEWHERE:
        sys.stderr.write(f"worker.py: {told(came, f'{slug} {number}', identity)}\n")
        return Exit.WRONG
    return Exit.DONE if came.operations else Exit.NEGATIVE


async def _cancel(config: Config, slug: Slug, number: Number, identity: str) -> Cancelled:
    async with canceller_of(config) as canceller:
        return await canceller.cancel(slug, number, identity)


def _kept(came: Cancelled) -> dict[str, str]:
    return {"kept": came.kept.value, "detail": came.detail} if came.kept else {}


def told(came: Cancelled, parcel: str, identity: str) -> str:
    """Say what came of a cancel and, when nothing did, why and what to do."""
    if came.kept:
        return _KEPT[came.kept].format(id=identity, parcel=parcel, detail=came.detail)
    if came.operations:
        return f"cancelled {identity or came.operations} for {parcel}"
    return f"nothing waits for {parcel}; a call that runs is not cut off"
