"""The commands of Redis on lists, on a `Keyspace`."""

from __future__ import annotations

from collections.abc import Sequence

from simulated.command_args import Command, Reply, integer, part
from simulated.keyspace import Items, Keyspace, RefusedError, Status


def _push(space: Keyspace, args: Sequence[str], *, left: bool) -> Reply:
    items = space.made(Items, args[0])
    for value in args[1:]:
        items.insert(0, value) if left else items.append(value)
    return len(items)


def _pop(space: Keyspace, args: Sequence[str], at: int) -> Reply:
    items = space.of(Items, args[0])
    if items is None:
        return None
    if len(args) == 1:
        value: Reply = items.pop(at)
    else:
        value = [items.pop(at) for _ in range(min(integer(args[1]), len(items)))]
    space.tidy(args[0])
    return value


def _lset(space: Keyspace, args: Sequence[str]) -> Reply:
    key, index, value = args[0], integer(args[1]), args[2]
    items = space.of(Items, key)
    if items is None:
        raise RefusedError("ERR no such key")
    if not -len(items) <= index < len(items):
        raise RefusedError("ERR index out of range")
    items[index] = value
    space.written[key] = None
    return Status()


def _ltrim(space: Keyspace, args: Sequence[str]) -> Reply:
    items = space.of(Items, args[0])
    if items is not None:
        items[:] = part(items, args[1], args[2])
        space.tidy(args[0])
    return Status()


def _lpos(space: Keyspace, args: Sequence[str]) -> Reply:
    items = space.of(Items, args[0]) or []
    return items.index(args[1]) if args[1] in items else None


def _lrange(space: Keyspace, args: Sequence[str]) -> Reply:
    return part(space.of(Items, args[0]) or [], args[1], args[2])


LIST_COMMANDS: dict[str, Command] = {
    "LPUSH": lambda s, a: _push(s, a, left=True),
    "RPUSH": lambda s, a: _push(s, a, left=False),
    "LPOP": lambda s, a: _pop(s, a, 0),
    "RPOP": lambda s, a: _pop(s, a, -1),
    "LLEN": lambda s, a: len(s.of(Items, a[0]) or ()),
    "LINDEX": lambda s, a: next(iter(part(s.of(Items, a[0]) or [], a[1], a[1])), None),
    "LRANGE": _lrange,
    "LSET": _lset,
    "LTRIM": _ltrim,
    "LPOS": _lpos,
}
