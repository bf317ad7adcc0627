"""What Redis holds, in bytes, weighed key by key.

Not by `used_memory`: that counts what its clients send and await, the append-only file's buffer
and the scripts, too, which differ by more than some thousand requests weigh.
"""

from __future__ import annotations

from typing import Any

from redis import Redis

PAGE = 10_000
"""Keys that one script weighs: a million in 3 s. With a command for each key they take 9 s."""

_WEIGH = """
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local bytes = 0
for _, key in ipairs(page[2]) do
    -- Of all members: by default it guesses from five. No answer: it has just expired.
    bytes = bytes + (redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0)
end
return {page[1], bytes}
"""


def bytes_held(redis: Redis) -> int:
    """Weigh all keys, and the tables in which Redis finds them."""
    return bytes_of_keys(redis) + bytes_of_tables(redis)


def bytes_of_keys(redis: Redis, pattern: str = "*") -> int:
    """Weigh the keys of a pattern, each with its name and all of its members."""
    cursor, weighed = "0", 0
    while True:
        reply: Any = redis.eval(_WEIGH, 0, cursor, pattern, PAGE)
        cursor = str(reply[0])
        weighed += int(reply[1])
        if cursor == "0":
            return weighed


def bytes_of_tables(redis: Redis) -> int:
    """Weigh the tables in which Redis finds a key and its expiry; MEMORY USAGE leaves them out.

    A full one gives way to one of twice its size, so what a key takes of it depends on how full it
    is. 0 of a server that does not tell: Redis before 7.4.
    """
    told = redis.memory_stats()
    # While a table grows there are two; the smaller one is about to go.
    outgoing = told.get("overhead.db.hashtable.rehashing", 0)
    return int(told.get("overhead.db.hashtable.lut", 0)) - int(outgoing)
