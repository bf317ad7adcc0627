"""What a courier answers about several numbers, out of what it answers about each one alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from devstack.site.shapes.reply import Reply, encode


def several(numbers: Sequence[str], one: Callable[[str], Reply], *path: str) -> Reply:
    """Join the answers to all numbers: the lists at `path` into one, or the whole answers.

    One number is answered as always. Where the answers have different statuses, theirs is 207.
    """
    alone = [one(number) for number in numbers or ("",)]
    if len(alone) == 1:
        return alone[0]
    statuses = {reply.status for reply in alone}
    status = statuses.pop() if len(statuses) == 1 else int(HTTPStatus.MULTI_STATUS)
    told = _joined([reply.body for reply in alone], path)
    nobody = alone[0].unknown[0], _joined([reply.unknown[1] for reply in alone], path)
    slug, number = alone[0].slug, alone[0].number
    return Reply(slug, number, status, told, unknown=nobody, riders=tuple(numbers[1:]))


def _joined(bodies: Sequence[bytes], path: Sequence[str]) -> bytes:
    joined: Any = []
    for body in bodies:
        found = json.loads(body)
        for name in path:
            found = found[name]
        joined += found if isinstance(found, list) else [found]
    for name in reversed(path):
        joined = {name: joined}
    return encode(joined)
