"""The Redis server as it is known without a driver: its address and its memory.

A full Redis takes no new request; what waits or runs goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

MEMORY_FIX = "Raise its maxmemory, or look why so much waits (info)."
"""What to do about a Redis that is full."""

HOLD = """
redis.call('DEL', KEYS[1])
return redis.call('SET', KEYS[1], unpack(ARGV))
"""
"""Sets a key also while Redis is full: it lets a script write that begins with a deletion."""

REPLACE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', 'tracking:nothing')
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""
"""Replaces a text that is still ARGV[1], also while Redis is full."""

RENAME = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('ZREM', KEYS[3], ARGV[4])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('UNLINK', KEYS[1])
return 1
"""
"""Puts a text under another key, for ARGV[3] ms, and takes ARGV[4] out of a set; as REPLACE."""

RunInBackground = Callable[[str, Callable[[], Awaitable[None]]], AbstractAsyncContextManager[None]]
"""Runs what never returns, under a name for people, within the `with` block.

Its giver sees to it that what ends all the same is noticed, and begun again.
"""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is: `url`, or the addresses of Sentinels and the name of their service.

    With Sentinels, `url` still gives scheme, login, database and options; `sentinel_login` is user
    name and password, each may be "". TLS and its options are for the Sentinels too.
    """

    url: str = "redis://127.0.0.1:6379/0"
    sentinels: Sequence[tuple[str, int]] = ()
    service: str = "mymaster"
    sentinel_login: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Memory:
    """What Redis uses and may use, in bytes; `most` 0 is no bound."""

    used: int
    most: int
    full: bool

    def __str__(self) -> str:
        return f"{self.used / 2**20:,.1f} of {self.most / 2**20:,.1f} MiB"


def memory_in(info: Mapping[str, Any]) -> Memory:
    """Read INFO as Redis does before it refuses a write: buffers of copies do not count."""
    used = int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0))
    most = int(info.get("maxmemory", 0))
    return Memory(used, most, full=0 < most <= used)
