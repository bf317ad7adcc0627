"""What became of requests that were just put: asked for until all have ended."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from limits.view import SlugView, View
from service.cli.bodies import Sendable
from service.cli.exit_codes import Exit
from service.cli.standing import looked_at, members, reason, stands, summary
from service.client.connections import view_of
from service.config.schema import Config
from tracking.operation import ENDS, State
from tracking.request import Number, Slug

FIRST_SECONDS = 0.1
PACE_CAP_SECONDS = 1.0
AT_ONCE = 200
"""Operations asked for per round: a million must not keep Redis busy with our curiosity."""

FIRST_LOOK_SECONDS, LOOK_SECONDS = 1.0, 5.0
"""When to tell what keeps the requests: most have ended after a second."""

COURIERS_LOOKED_AT = 20


async def wait_for(
    requests: Sequence[Sendable], config: Config, patience: float, *, as_json: bool
) -> int:
    """Print each request's end as it comes; 0 when all succeeded. Raises LimitsDown.

    What keeps the others is told meanwhile on standard error, and with each of them at the end.
    """
    pending = {each.id: each for each in requests}
    began = time.monotonic()
    look_at, pace = began + FIRST_LOOK_SECONDS, FIRST_SECONDS
    failed, told = False, dict[str, str]()
    async with view_of(config) as view:
        while True:
            for identity, operation in (await _ended(view, list(pending))).items():
                _tell(pending.pop(identity), operation, summary(operation), as_json=as_json)
                failed |= operation["status"] != State.SUCCESS
            now = time.monotonic()
            left = began + patience - now
            if pending and (now >= look_at or left <= 0):
                _tell_what_binds(await _bound(view, pending.values()), told)
                look_at = now + LOOK_SECONDS
            if not pending or left <= 0:
                break
            await asyncio.sleep(min(pace, left))
            pace = min(PACE_CAP_SECONDS, pace * 1.5)
        await _tell_the_rest(view, pending.values(), as_json=as_json)
    if pending:
        return Exit.WAITED
    return Exit.NEGATIVE if failed else Exit.DONE


async def _ended(view: View, identities: Sequence[str]) -> dict[str, dict[str, Any]]:
    found = {}
    misses = 0
    for identity in identities:
        operation = await view.operation(identity)
        if operation and operation["status"] in ENDS:
            found[identity] = operation
        elif (misses := misses + 1) >= AT_ONCE:
            # They end about in the order in which they were put.
            break
    return found


async def _bound(view: View, requests: Iterable[Sendable]) -> dict[Slug, SlugView]:
    slugs = list(dict.fromkeys(each.slug for each in requests))
    return await looked_at(view, slugs[:COURIERS_LOOKED_AT])


def _tell_what_binds(bound: Mapping[Slug, SlugView], told: dict[str, str]) -> None:
    """Say what keeps each courier's requests, when that is another thing than before."""
    for slug, seen in bound.items():
        # One sentence will do for all couriers.
        name = "" if seen.bound_by == "no_worker" else f"{slug}: "
        what = f"{seen.bound_by} {seen.paused_why}"
        if seen.bound_by and told.get(name) != what:
            sys.stderr.write(f"worker.py: {name}{reason(seen)}\n")
        told[name] = what


async def _tell_the_rest(view: View, requests: Collection[Sendable], *, as_json: bool) -> None:
    bound = await _bound(view, requests)
    for each in requests:
        operation = await view.operation(each.id) or {"status": "NOT YET"}
        seen = bound.get(each.slug)
        words = "no worker has taken it from the tube"
        if operation["status"] != "NOT YET" and len(requests) <= AT_ONCE:
            place = await view.place(each.slug, Number(each.number))
            words = stands(place) if place else summary(operation)
            if place and place.state is State.WAITING and seen and seen.bound_by:
                words += f"; {reason(seen)}"
        _tell(each, operation | (members(seen) if seen else {}), words, as_json=as_json)


def _tell(each: Sendable, operation: Mapping[str, Any], words: str, *, as_json: bool) -> None:
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number, **operation}
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        sys.stdout.write(f"{operation['status']:<9} {each.slug} {each.number}  {words}\n")
    sys.stdout.flush()
