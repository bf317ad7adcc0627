"""What became of requests that were just put, as `put --wait` prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from service.cli.exit_codes import Exit
from service.cli.standing import reason, stands, summary
from service.client.follow import Binding, End, Left, follow
from service.client.look import kept_by, members
from service.client.put import Sendable
from service.config.schema import Config
from tracking.operation import State


async def wait_for(
    requests: Sequence[Sendable], config: Config, patience: float, *, as_json: bool
) -> int:
    """Print each request's end as it comes; 0 when all succeeded. Raises LimitsDown.

    Standard error says meanwhile what keeps the others, and their lines say it at the end.
    """
    code, told = Exit.DONE, dict[str, str]()
    async for event in follow(requests, config, patience):
        match event:
            case End(request, operation):
                _tell(request, operation, summary(operation), as_json=as_json)
                if operation["status"] != State.SUCCESS and code is Exit.DONE:
                    code = Exit.NEGATIVE
            case Binding():
                _tell_what_binds(event, told)
            case Left(request, operation, _, seen):
                code = Exit.WAITED
                shown = dict(operation or {"status": "NOT YET"}) | (members(seen) if seen else {})
                _tell(request, shown, _words(event), as_json=as_json)
    return code


def _tell_what_binds(binding: Binding, told: dict[str, str]) -> None:
    """Say what keeps a courier's requests, when that is another thing than before."""
    seen = binding.seen
    # One sentence will do for all couriers.
    name = "" if seen.bound_by == "no_worker" else f"{binding.slug}: "
    what = f"{seen.bound_by} {seen.paused_why}"
    if seen.bound_by and told.get(name) != what:
        sys.stderr.write(f"worker.py: {name}{reason(seen)}\n")
    told[name] = what


def _words(left: Left) -> str:
    place, seen = left.place, left.seen
    if left.operation is None:
        return "no worker has taken it from the tube"
    if place is None:
        return summary(left.operation)
    words = stands(place)
    why = reason(kept_by(place, seen)) if seen and place.state is State.WAITING else ""
    return f"{words}; {why}" if why else words


def _tell(each: Sendable, operation: Mapping[str, Any], words: str, *, as_json: bool) -> None:
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number, **operation}
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        sys.stdout.write(f"{operation['status']:<9} {each.slug} {each.number}  {words}\n")
    sys.stdout.flush()
