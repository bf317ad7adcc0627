"""Whether any script holds Redis up, however long the lines are.

Each script, and each step of the one that does all steps of lines, is asked in the shape that takes
it longest: as many steps together as a busy worker sends, numbers anywhere in lists that are full
of others, numbers with many operations, many couriers at once.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from redis.asyncio import Redis

from benchmarks.asks import ask_line, ask_others
from benchmarks.long_line import open_line
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.redis_figures import ScriptTimes, Times, summed_up
from benchmarks.rig import Rig, open_rig

LENGTHS = (10_000, 100_000, 1_000_000)
ROUNDS = 2
NOTE = (
    "ms of Redis for one script, by its own histogram of EVALSHA. Waiting: of each list of one "
    "courier, MANUAL and AUTOMATIC. Worst: the longest of all {rounds} rounds; calm: the longest "
    "of the round where that was the shortest, which leaves out what another process took of the "
    "core: the first row, a script that only counts, says how much that was. Redis runs before "
    "other processes where the user may let it. Up to 34 steps in one script, as a busy worker "
    "sends them."
)


def columns(lengths: tuple[int, ...]) -> list[Column]:
    """The times at each length."""
    told = [Column("asked", "asked"), Column("scripts", "scripts")]
    for length in lengths:
        told.append(Column(f"p50_{length}", f"{length:,} waiting: p50", 2))
        told += (Column(f"{what}_{length}", what, 2) for what in ("p99", "worst", "calm"))
    return told


def run(plan: Plan) -> list[Table]:
    """Measure all lengths."""
    lengths, rounds = plan.pick(LENGTHS, LENGTHS[:1]), plan.pick(ROUNDS, 1)
    rows: dict[str, dict[str, Value]] = {}
    with open_rig() as rig:
        _prefer(rig.stack.redis.pid or 0)
        for length in lengths:
            for asked, times in asyncio.run(_times(rig, length, rounds, plan)).items():
                row = rows.setdefault(asked, {"asked": asked, "scripts": 0})
                row["scripts"] = int(row["scripts"] or 0) + sum(each.scripts for each in times)
                row |= {f"{what}_{length}": ms for what, ms in summed_up(times).items()}
    note = NOTE.format(rounds=rounds)
    return [
        Table("scripts", "How long scripts hold Redis", columns(lengths), [*rows.values()], note)
    ]


def _prefer(pid: int) -> None:
    """Let a process have a core whenever it wants one, where this user may say so."""
    with suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


async def _times(rig: Rig, length: int, rounds: int, plan: Plan) -> dict[str, list[Times]]:
    async with Redis.from_url(rig.stack.redis.url, decode_responses=True) as redis:
        times = ScriptTimes(redis)
        await times.begin()
        for number in range(1, rounds + 1):
            plan.say(f"{length:,} waiting, round {number} of {rounds}")
            await times.compare()
            async with open_line(rig.stack.redis.url, length, times) as line:
                await ask_others(line)
                await ask_line(line)
    return times.rounds


SCENARIO = Scenario("scripts", "how long each script holds Redis, at up to a million waiting", run)
