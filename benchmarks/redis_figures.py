"""What Redis tells of itself: the bytes it holds, what workers ask of it, how long scripts take.

Bytes are weighed key by key, and not by `used_memory`: that counts what its clients send and await,
the append-only file's buffer and the scripts, too, which differ by more than some thousand requests
weigh.

Redis' clock goes on while its core is with somebody else, so a longest time alone says little. Each
thing is asked in several rounds: what it needs itself is in each of them, and so in the calmest.
Beside it, a script that only counts shows what this machine did to one that never needs longer.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis import Redis
from redis import asyncio as redis_asyncio

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


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts of what workers ask, since the server started or between two readings.

    `scripts`: EVALSHA calls, all that a working worker sends. `round_trips`: reads from sockets;
    scripts that travel together count once, or once per 16 KB. `commands`: what scripts execute.
    """

    scripts: int
    round_trips: int
    commands: int

    def since(self, before: Traffic) -> Traffic:
        """Count what came after an earlier reading."""
        return Traffic(
            self.scripts - before.scripts,
            self.round_trips - before.round_trips,
            self.commands - before.commands,
        )


def traffic(redis: Redis) -> Traffic:
    """Read the counters."""
    scripts = int(redis.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))
    stats = redis.info("stats")
    # Redis counts the commands inside scripts as well.
    inside = int(stats["total_commands_processed"]) - scripts
    return Traffic(scripts, int(stats["total_reads_processed"]), inside)


COUNT = "local n = 0 for _ = 1, ARGV[1] do n = n + 1 end return n"
COUNTED_TIMES = 150
TRIED = 100_000
COUNTING_MS = 2.0


class Times(NamedTuple):
    """Of the scripts of one block, in ms; Redis rounds by at most 1 %."""

    scripts: int
    p50: float
    p99: float
    worst: float


@dataclass(slots=True)
class ScriptTimes:
    """The times of each thing that was asked, one for each round."""

    redis: redis_asyncio.Redis
    rounds: dict[str, list[Times]] = field(default_factory=dict)

    async def begin(self) -> None:
        """Have Redis keep what is read here."""
        await self.redis.config_set("latency-tracking", "yes")
        await self.redis.config_set("latency-tracking-info-percentiles", "50 99 100")

    @asynccontextmanager
    async def of(self, asked: str) -> AsyncIterator[None]:
        """Measure all scripts that run during the block."""
        await self.redis.config_resetstat()
        yield
        self.rounds.setdefault(asked, []).append(await self._read())

    async def compare(self) -> None:
        """Run the script that only counts."""
        sha = await self.redis.script_load(COUNT)
        await self.redis.config_resetstat()
        for _ in range(10):
            await self.redis.evalsha(sha, 0, TRIED)
        times = round(TRIED * COUNTING_MS / (await self._read()).p50)
        async with self.of("nothing: a script that counts"):
            for _ in range(COUNTED_TIMES):
                await self.redis.evalsha(sha, 0, times)

    async def _read(self) -> Times:
        calls = (await self.redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
        told = (await self.redis.info("latencystats"))["latency_percentiles_usec_evalsha"]
        return Times(calls, *(float(told[each]) / 1000 for each in ("p50", "p99", "p100")))


def summed_up(rounds: Sequence[Times]) -> dict[str, float]:
    """`calm`: the longest script of the round in which that was the shortest."""
    return {
        "p50": statistics.median(each.p50 for each in rounds),
        "p99": statistics.median(each.p99 for each in rounds),
        "worst": max(each.worst for each in rounds),
        "calm": min(each.worst for each in rounds),
    }
