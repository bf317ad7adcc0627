"""The register of worker processes that live: a job that comes back asks whose call it is.

A worker tells itself with the look that its sweeper takes anyway (lua/survey.lua), and is forgotten
`LIVES_SECONDS` after its last one. A process that vanished is known to be gone at once by those
that run beside it, under the same kernel; by all others once it is forgotten.

One of them at a time plans the re-checks of each courier, and one fills each line that is a window
of its own store (lua/plan.lua). One that vanishes leaves its lines to others once its lease is
over. Two that plan at the same time, because one of them stood still or a failover lost who
planned, do no harm: the id of a check is made of its parcel and date, so what both put is one
operation; and what both bring in has one number.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from redis.asyncio import Redis

from limits import keys
from limits.failure import redis_asked
from limits.pipeline import unconfirmed

T = TypeVar("T", bound=str)

LIVES_SECONDS = 20.0
"""Three sweeps, 5 s apart: one may be lost, and one late."""

LEASE_SECONDS = 45.0
"""Longer than a planner rests between two looks."""

FORM = 2
"""Of the records that this version writes: one for a number and account. Before 2 nobody said."""


@dataclass(slots=True)
class WorkerInfo:
    """One worker process as it tells itself. `since` is Unix time in seconds.

    `trouble`: which of its background tasks ended last, and how often. `guards`: in ms, of the
    lines where what it measured wants more than is set (limits/rules.py). `revision`: of the rules
    that it goes by; a worker of a version before says none.
    """

    host: str
    pid: int
    version: str
    since: float
    trouble: str = ""
    guards: dict[str, int] = field(default_factory=dict)
    revision: int = 0

    def report(self, trouble: str) -> None:
        """Have `info` tell of it, from the next look on."""
        self.trouble = trouble


def registration(who: WorkerInfo, token: str) -> str:
    """Write a worker for the key of all workers; the ids of its calls begin with its token."""
    told = {name: value for name, value in asdict(who).items() if value not in ("", {})}
    if who.pid == os.getpid():
        told["space"] = process_space()
    told["form"] = FORM
    return json.dumps({"token": token, **told}, separators=(",", ":"))


@functools.cache  # a process stays where it is, and each sweep asks
def process_space() -> str:
    """Name where pids mean what they mean to this process: kernel, since it booted, and namespace.

    "": this system does not say.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""  # no Linux


def is_gone(told: str) -> bool:
    """Whether the process that tells this of itself has certainly ended."""
    who = json.loads(told)
    if not who.get("space") or who["space"] != process_space():
        return False
    try:
        os.kill(who["pid"], 0)
        state = Path(f"/proc/{who['pid']}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    except OSError:
        return False  # another user's
    return state in {"Z", "X"}


async def is_known(redis: Redis, slug: str) -> bool:
    """Whether a worker that lives knows this courier. Raises LimitsDown."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.time()
    pipeline.zscore(keys.COURIERS, slug)
    with redis_asked():
        (seconds, micro), until_ms = await pipeline.execute()
    left_ms = float(until_ms or 0) - seconds * 1000 - micro / 1000
    # What lies further ahead was noted before Redis' clock stepped back.
    return bool(0 < left_ms <= LIVES_SECONDS * 1000)


def token_of(call_id: str) -> str:
    """The token of the worker that was granted a call."""
    return call_id.rpartition("-")[0]


class Planners:
    """Who plans re-checks, or fills lines. `who` asks: each process under a name of its own."""

    def __init__(self, redis: Redis, who: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._pipeline = unconfirmed(redis)  # what a failover loses is taken once more
        self._who = who
        self._lease_ms = round(lease_seconds * 1000)

    async def hold(self, lines: Sequence[T]) -> list[T]:
        """Take those of these lines that nobody else plans, for the lease from now on.

        Raises LimitsDown: repeat it, then.
        """
        if not lines:
            return []
        names = [keys.planner(line) for line in lines]
        plans = await self._pipeline.run("plan", names, (self._who, self._lease_ms))
        return [line for line, its_own in zip(lines, plans, strict=True) if int(its_own)]
