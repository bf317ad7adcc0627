"""The commands of Redis that scripts use, on a `Keyspace`. What is missing says its name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from simulated.command_args import Command, Reply, integer, part
from simulated.keyspace import (
    Entries,
    Hash,
    Keyspace,
    Members,
    RefusedError,
    Scores,
    Status,
    score_text,
)
from simulated.list_commands import LIST_COMMANDS

SYNTAX = "ERR syntax error"


def execute(space: Keyspace, name: str, args: Sequence[str]) -> Reply:
    """Do one command. Raises RefusedError where Redis would answer with an error."""
    command = COMMANDS.get(name) or COMMANDS.get(name.upper())
    if command is None:
        raise RefusedError(f"ERR unknown command '{name}' (tests/simulation/simulated/commands.py)")
    return command(space, args)


def _time(space: Keyspace, _: Sequence[str]) -> Reply:
    return [str(space.now_us // 1_000_000), str(space.now_us % 1_000_000)]


def _info(space: Keyspace, _: Sequence[str]) -> Reply:
    """As much of it as lua/epoch.lua reads."""
    told = {
        "run_id": f"{space.runs:x}",
        "connected_slaves": int(space.replicated),
        "second_repl_offset": space.promotions or -1,
    }
    if space.replicated:
        told["min_slaves_good_slaves"] = 1
    return "".join(f"{name}:{value}\r\n" for name, value in told.items())


def _mset(space: Keyspace, args: Sequence[str]) -> Reply:
    for key, value in zip(args[::2], args[1::2], strict=True):
        _set(space, [key, value])
    return Status("OK")


def _set(space: Keyspace, args: Sequence[str]) -> Reply:
    key, value, *options = args
    keep, only, end = False, None, None
    at = 0
    while at < len(options):
        match options[at].upper():
            case "PX":
                end, at = space.now_ms + integer(options[at + 1]), at + 1
            case "EX":
                end, at = space.now_ms + 1000 * integer(options[at + 1]), at + 1
            case "KEEPTTL":
                keep = True
            case "NX" | "XX" as word:
                only = word
            case _:
                raise RefusedError(SYNTAX)
        at += 1
    there = space.find(key) is not None
    if only == ("NX" if there else "XX"):
        return None
    space.put(key, value, keep_end=keep)
    if end is not None:
        space.end_at(key, end)
    return Status()


def _pexpire(space: Keyspace, args: Sequence[str]) -> Reply:
    key, ms, *only = args
    if only == ["NX"] and space.left_ms(key) != -1:
        return 0
    return int(space.end_at(key, space.now_ms + integer(ms)))


def _add(space: Keyspace, key: str, by: int) -> int:
    value = integer(space.text(key) or "0") + by
    space.put(key, str(value), keep_end=True)
    return value


def _rename(space: Keyspace, args: Sequence[str]) -> Reply:
    if not space.rename(*args):
        raise RefusedError("ERR no such key")
    return Status()


def _hset(space: Keyspace, args: Sequence[str]) -> Reply:
    fields = space.made(Hash, args[0])
    before = len(fields)
    fields.update(zip(args[1::2], args[2::2], strict=True))
    return len(fields) - before


def _hincrby(space: Keyspace, args: Sequence[str]) -> Reply:
    fields = space.made(Hash, args[0])
    value = integer(fields.get(args[1], "0")) + integer(args[2])
    fields[args[1]] = str(value)
    return value


def _hscan(space: Keyspace, args: Sequence[str]) -> Reply:
    """All at once, as Redis does it with a hash of up to 512 fields."""
    fields = space.of(Hash, args[0]) or {}
    return ["0", [each for pair in fields.items() for each in pair]]


def _remove(space: Keyspace, kind: type[Hash | Members | Scores], args: Sequence[str]) -> Reply:
    found = space.of(kind, args[0])  # type: ignore[type-var]
    if found is None:
        return 0
    gone = sum(found.pop(member, found) is not found for member in args[1:])
    if gone:
        space.tidy(args[0])
    return gone


def _sadd(space: Keyspace, args: Sequence[str]) -> Reply:
    members = space.made(Members, args[0])
    before = len(members)
    members.update(dict.fromkeys(args[1:]))
    return len(members) - before


def _zadd(space: Keyspace, args: Sequence[str]) -> Reply:
    key, *rest = args
    only = ""
    while rest[0].upper() in {"XX", "NX"}:
        only = rest.pop(0).upper()
    if only == "XX" and space.of(Scores, key) is None:
        return 0
    scores = space.made(Scores, key)
    added = 0
    for score, member in zip(rest[::2], rest[1::2], strict=True):
        if only == ("NX" if member in scores else "XX"):
            continue
        added += member not in scores
        scores[member] = float(score)
    return added


def _bound(text: str) -> tuple[float, bool]:
    return (float(text[1:]), True) if text.startswith("(") else (float(text), False)


def _between(scores: Scores | None, low: str, high: str) -> list[tuple[str, float]]:
    (least, above), (most, below) = _bound(low), _bound(high)
    return [
        (member, score)
        for member, score in (scores.ranked() if scores else ())
        if (score > least if above else score >= least)
        and (score < most if below else score <= most)
    ]


def _told(found: Sequence[tuple[str, float]], *, with_scores: bool) -> list[str]:
    if not with_scores:
        return [member for member, _ in found]
    return [text for member, score in found for text in (member, score_text(score))]


def _zrange(space: Keyspace, args: Sequence[str]) -> Reply:
    key, first, last, *options = args
    ranked = (space.of(Scores, key) or Scores()).ranked()
    members = part([member for member, _ in ranked], first, last)
    scores = dict(ranked)
    found = [(member, scores[member]) for member in members]
    return _told(found, with_scores="WITHSCORES" in map(str.upper, options))


def _zrangebyscore(space: Keyspace, args: Sequence[str]) -> Reply:
    key, low, high, *options = args
    found = _between(space.of(Scores, key), low, high)
    words = [option.upper() for option in options]
    if "LIMIT" in words:
        at = words.index("LIMIT")
        offset, count = integer(options[at + 1]), integer(options[at + 2])
        found = found[offset:] if count < 0 else found[offset : offset + count]
    return _told(found, with_scores="WITHSCORES" in words)


def _zremrangebyrank(space: Keyspace, args: Sequence[str]) -> Reply:
    key, first, last = args[0], integer(args[1]), integer(args[2])
    scores = space.of(Scores, key)
    if scores is None:
        return 0
    found = scores.ranked()[first : last + 1]
    for member, _ in found:
        del scores[member]
    if found:
        space.tidy(key)
    return len(found)


def _zremrangebyscore(space: Keyspace, args: Sequence[str]) -> Reply:
    key = args[0]
    scores = space.of(Scores, key)
    if scores is None:
        return 0
    found = _between(scores, args[1], args[2])
    for member, _ in found:
        del scores[member]
    if found:
        space.tidy(key)
        if key.startswith("calls_leases:"):
            space.expired_leases += len(found)
    return len(found)


def _zscore(space: Keyspace, args: Sequence[str]) -> Reply:
    score = (space.of(Scores, args[0]) or Scores()).get(args[1])
    return None if score is None else score_text(score)


def _zrank(space: Keyspace, args: Sequence[str]) -> Reply:
    ranked = [member for member, _ in (space.of(Scores, args[0]) or Scores()).ranked()]
    return ranked.index(args[1]) if args[1] in ranked else None


def _zmscore(space: Keyspace, args: Sequence[str]) -> Reply:
    return [_zscore(space, (args[0], member)) for member in args[1:]]


def _xadd(space: Keyspace, args: Sequence[str]) -> Reply:
    """`XADD key [MINID ~ least] * field value …`, trimmed to the entry."""
    key, *bound = args[: args.index("*")]
    entries = space.made(Entries, key)
    ms, seq = map(int, entries[-1][0].split("-")) if entries else (0, -1)
    made = f"{space.now_ms}-0" if space.now_ms > ms else f"{ms}-{seq + 1}"
    entries.append((made, tuple(args[args.index("*") + 1 :])))
    if bound:
        _xtrim(space, (key, *bound))
    return made


def _xtrim(space: Keyspace, args: Sequence[str]) -> Reply:
    """`XTRIM key MAXLEN|MINID ~ bound`, to the entry; an emptied stream stays."""
    key, trimmed, about, bound = args
    if trimmed.upper() not in {"MAXLEN", "MINID"} or about != "~":
        raise RefusedError(SYNTAX)
    entries = space.of(Entries, key)
    if entries is None:
        return 0
    before = len(entries)
    if trimmed.upper() == "MAXLEN":
        del entries[: max(0, before - integer(bound))]
    else:
        entries[:] = [each for each in entries if int(each[0].split("-")[0]) >= float(bound)]
    space.written[key] = None
    return before - len(entries)


def _keys(space: Keyspace, args: Sequence[str]) -> Reply:
    return [key for key in space.names() if fnmatchcase(key, args[0])]


COMMANDS: dict[str, Command] = {
    **LIST_COMMANDS,
    "TIME": _time,
    "INFO": _info,
    "WAIT": lambda s, _: int(s.replicated),
    "PING": lambda _, __: Status("PONG"),
    "KEYS": _keys,
    "DEL": lambda s, a: sum(s.drop(key) for key in a if s.find(key) is not None),
    "UNLINK": lambda s, a: sum(s.drop(key) for key in a if s.find(key) is not None),
    "EXISTS": lambda s, a: sum(s.find(key) is not None for key in a),
    "PEXPIRE": _pexpire,
    "EXPIRE": lambda s, a: int(s.end_at(a[0], s.now_ms + 1000 * integer(a[1]))),
    "PEXPIREAT": lambda s, a: int(s.end_at(a[0], integer(a[1]))),
    "PERSIST": lambda s, a: int(s.end_at(a[0], None)),
    "PTTL": lambda s, a: s.left_ms(a[0]),
    "GET": lambda s, a: s.text(a[0]),
    "MSET": _mset,
    "MGET": lambda s, a: [v if isinstance(v := s.find(key), str) else None for key in a],
    "SET": _set,
    "INCR": lambda s, a: _add(s, a[0], 1),
    "DECR": lambda s, a: _add(s, a[0], -1),
    "INCRBY": lambda s, a: _add(s, a[0], integer(a[1])),
    "HSET": _hset,
    "HGET": lambda s, a: (s.of(Hash, a[0]) or Hash()).get(a[1]),
    "HMGET": lambda s, a: [(s.of(Hash, a[0]) or Hash()).get(field) for field in a[1:]],
    "HDEL": lambda s, a: _remove(s, Hash, a),
    "HEXISTS": lambda s, a: int(a[1] in (s.of(Hash, a[0]) or ())),
    "HLEN": lambda s, a: len(s.of(Hash, a[0]) or ()),
    "HKEYS": lambda s, a: list(s.of(Hash, a[0]) or ()),
    "HSCAN": _hscan,
    "HVALS": lambda s, a: list((s.of(Hash, a[0]) or {}).values()),
    "HGETALL": lambda s, a: [each for pair in (s.of(Hash, a[0]) or {}).items() for each in pair],
    "HINCRBY": _hincrby,
    "RENAME": _rename,
    "SADD": _sadd,
    "SREM": lambda s, a: _remove(s, Members, a),
    "SCARD": lambda s, a: len(s.of(Members, a[0]) or ()),
    "SISMEMBER": lambda s, a: int(a[1] in (s.of(Members, a[0]) or ())),
    "SMEMBERS": lambda s, a: list(s.of(Members, a[0]) or ()),
    "XADD": _xadd,
    "XTRIM": _xtrim,
    "ZADD": _zadd,
    "ZREM": lambda s, a: _remove(s, Scores, a),
    "ZCARD": lambda s, a: len(s.of(Scores, a[0]) or ()),
    "ZCOUNT": lambda s, a: len(_between(s.of(Scores, a[0]), a[1], a[2])),
    "ZSCORE": _zscore,
    "ZRANK": _zrank,
    "ZMSCORE": _zmscore,
    "ZRANGE": _zrange,
    "ZRANGEBYSCORE": _zrangebyscore,
    "ZREMRANGEBYRANK": _zremrangebyrank,
    "ZREMRANGEBYSCORE": _zremrangebyscore,
}
