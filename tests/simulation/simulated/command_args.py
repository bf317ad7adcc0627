"""How the commands of a simulated Redis read their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulated.keyspace import Keyspace, RefusedError

Reply = object
Command = Callable[[Keyspace, Sequence[str]], Reply]

NOT_AN_INTEGER = "ERR value is not an integer or out of range"


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RefusedError(NOT_AN_INTEGER) from None


def part(found: list[str], first: str, last: str) -> list[str]:
    start, stop = integer(first), integer(last)
    start = max(0, start + len(found)) if start < 0 else start
    stop = stop + len(found) if stop < 0 else stop
    return list(found[start : stop + 1])
