"""Lua 5.1 in process: the scripts run as they do in Redis, against a `Keyspace`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lupa.lua51 as lupa
import msgspec

from simulated.commands import execute
from simulated.keyspace import Keyspace, Refusal, RefusedError, Status, score_text

GROWING = frozenset(
    ("SET", "INCR", "DECR", "INCRBY", "HSET", "HINCRBY", "LPUSH", "RPUSH", "SADD", "XADD", "ZADD")
)
"""What a full Redis refuses (denyoom)."""

SHRINKING = frozenset(
    (
        *("DEL", "PEXPIRE", "EXPIRE", "PEXPIREAT", "PERSIST", "HDEL", "RENAME", "LPOP", "RPOP"),
        *("LREM", "SREM", "UNLINK", "XTRIM", "ZREM", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE"),
    )
)
"""What else writes."""

FULL = "OOM command not allowed when used memory > 'maxmemory'."
PLAIN = frozenset((str, int))
"""Replies that a script sees as they are."""

PRELUDE = """
local raw, decode, encode, null, sha1hex = ...
redis, cjson = {}, { encode = encode, decode = decode, null = null }
function redis.call(...)
  local reply = raw(...)
  if type(reply) == 'table' and reply.err then error(reply, 0) end
  return reply
end
function redis.pcall(...) return raw(...) end
local function settled(done, reply, ...)
  if not done and type(reply) == 'table' and reply.err then reply = reply.err end
  return done, reply, ...
end
local protected = pcall
function pcall(...) return settled(protected(...)) end
function redis.error_reply(text)
  if string.sub(text, 1, 1) ~= '-' then text = '-' .. text end
  return { err = string.sub(text, 2) }
end
function redis.status_reply(text) return { ok = text } end
redis.sha1hex = sha1hex
io, os, package, require, python, debug = nil, nil, nil, nil, nil, nil
return function(script, keys, argv)
  KEYS, ARGV = keys, argv
  return script()
end
"""


class Scripting:
    """One Lua for all worlds of a batch: scripts are compiled once, as in Redis."""

    def __init__(self) -> None:
        self._lua = lupa.LuaRuntime(
            encoding="latin-1", unpack_returned_tuples=True, register_eval=False
        )
        self._space: Keyspace | None = None
        self._has_written = False
        self._compiled: dict[str, Any] = {}
        null = self._lua.eval("newproxy()")
        self._null = null
        encode = self._lua.compile((Path(__file__).parent / "cjson.lua").read_text())(null)
        prelude = self._lua.compile(PRELUDE)
        self._enter = prelude(self._call, self._decode, encode, null, _sha1hex)

    def run(self, space: Keyspace, text: str, keys: Sequence[str], argv: Sequence[str]) -> object:
        """Run one script. What it answers is as a client sees it; errors are a `Refusal`."""
        script = self._compiled.get(text)
        if script is None:
            script = self._compiled[text] = self._lua.compile(text)
        self._space, self._has_written = space, False
        try:
            table = self._lua.table_from
            return self._read(self._enter(script, table(keys), table(argv)))
        except lupa.LuaError as error:
            return Refusal(f"ERR {error}")
        finally:
            self._space = None

    def _call(self, name: str, *args: str | float) -> Any:
        assert self._space is not None
        texts = [each if isinstance(each, str) else score_text(each) for each in args]
        if self._refuses(self._space, name.upper()):
            return self._lua.table_from({"err": FULL})
        try:
            reply = execute(self._space, name, texts)
        except RefusedError as error:
            return self._lua.table_from({"err": str(error)})
        return reply if type(reply) in PLAIN else self._write(reply)

    def _refuses(self, space: Keyspace, name: str) -> bool:
        """A full Redis looks at the first write of a script only."""
        if not self._has_written and space.full and name in GROWING:
            return True
        self._has_written = self._has_written or name in GROWING or name in SHRINKING
        return False

    def _write(self, reply: object) -> Any:
        """A command's reply, as a script sees it."""
        match reply:
            case None:
                return False
            case list():
                told = [each if type(each) in PLAIN else self._write(each) for each in reply]
                return self._lua.table_from(told)
            case Status(text):
                return self._lua.table_from({"ok": text})
        return reply

    def _read(self, value: Any) -> object:
        """What a script returns, as Redis makes a reply of it."""
        match value:
            case None | False:
                return None
            case int() | float():
                return int(value)
            case str():
                return value
        if value["err"] is not None:
            return Refusal(str(value["err"]))
        if value["ok"] is not None:
            return Status(str(value["ok"]))
        found: list[object] = []
        while (each := value[len(found) + 1]) is not None:
            found.append(self._read(each))
        return found

    def _decode(self, text: str) -> Any:
        if text[:1] in {"{", "["} and "null" not in text and "\\u" not in text:
            return self._lua.table_from(msgspec.json.decode(text), recursive=True)
        return self._table(json.loads(text.encode("latin-1").decode()))

    def _table(self, value: Any) -> Any:
        match value:
            case dict():
                return self._lua.table_from(
                    {_bytes(name): self._table(each) for name, each in value.items()}
                )
            case list():
                return self._lua.table_from([self._table(each) for each in value])
            case str():
                return _bytes(value)
            case None:
                return self._null
        return value


def _sha1hex(text: str) -> str:
    return hashlib.sha1(text.encode("latin-1"), usedforsecurity=False).hexdigest()


def _bytes(text: str) -> str:
    """One character for each byte of the text's UTF-8."""
    return text if text.isascii() else text.encode().decode("latin-1")


Change = Callable[[str], str]


def _unchanged(text: str) -> str:
    return text


class Scripts:
    """The script cache of one Redis: text by hash, until it is flushed."""

    def __init__(self, scripting: Scripting, changed: Change = _unchanged) -> None:
        """`changed` may alter a text before it is kept: a broken script, to see it caught."""
        self._scripting = scripting
        self._changed = changed
        self._texts: dict[str, str] = {}

    def load(self, text: str) -> str:
        """Keep a text (latin-1, one character for each byte); returns its hash."""
        sha = hashlib.sha1(text.encode("latin-1"), usedforsecurity=False).hexdigest()
        self._texts[sha] = self._changed(text)
        return sha

    def forget(self) -> None:
        self._texts.clear()

    def evaluate(
        self, space: Keyspace, sha: str, keys: Sequence[str], argv: Sequence[str]
    ) -> object:
        text = self._texts.get(sha)
        if text is None:
            return Refusal("NOSCRIPT No matching script. Please use EVAL.")
        return self._scripting.run(space, text, keys, argv)
