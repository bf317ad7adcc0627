"""What became of requests that were just put: asked for until all have ended."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from limits.view import View
from service.cli.bodies import Sendable
from service.cli.exits import Exit
from service.cli.stores import view_of
from service.config.schema import Config
from tracking.operation import ENDS, State

FIRST_SECONDS = 0.1
PACE_CAP_SECONDS = 1.0
AT_ONCE = 200
"""Operations asked for per round: a million must not keep Redis busy with our curiosity."""


async def wait_for(
    requests: Sequence[Sendable], config: Config, patience: float, *, as_json: bool
) -> int:
    """Print each request's end as it comes; 0 when all succeeded. Raises LimitsDown."""
    pending = {each.id: each for each in requests}
    deadline = time.monotonic() + patience
    pace = FIRST_SECONDS
    failed = False
    async with view_of(config) as view:
        while True:
            for identity, operation in (await _ended(view, list(pending))).items():
                _tell(pending.pop(identity), operation, as_json=as_json)
                failed |= operation["status"] != State.SUCCESS
            left = deadline - time.monotonic()
            if not pending or left <= 0:
                break
            await asyncio.sleep(min(pace, left))
            pace = min(PACE_CAP_SECONDS, pace * 1.5)
        for identity, each in pending.items():
            _tell(each, await view.operation(identity) or {"status": "NOT YET"}, as_json=as_json)
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


def _tell(each: Sendable, operation: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number, **operation}
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        outcome = summary(operation)
        sys.stdout.write(f"{operation['status']:<9} {each.slug} {each.number}  {outcome}\n")
    sys.stdout.flush()


def summary(operation: Mapping[str, Any]) -> str:
    """Say in a few words how an operation stands."""
    output = operation.get("output") or {}
    if "tag" in output:
        count = output.get("checkpoints", 0)
        return f"{output['tag']}, {count} checkpoint{'' if count == 1 else 's'}"
    if "error" in output:
        return f"{output['error']}: {output.get('message', '')}"
    return str(output.get("reason", ""))
