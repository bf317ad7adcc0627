"""How fast `api` tells of operations, and what replies cost that it holds."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from redis.asyncio import Redis

from benchmarks.held_replies import ENDED, STATUS, end_all, holding
from benchmarks.http_load import gets_per_second
from benchmarks.plan import Plan, Scenario
from benchmarks.rig import Rig, open_rig
from benchmarks.scenarios.door import BOOT_SECONDS, ROOT, SINGLY, wait_for
from benchmarks.table import Column, Table, Value
from devstack.nursery import Nursery
from devstack.servers import free_port

ASKED = (
    Column("round", "round"),
    Column("bare", "bare handler, gets/s"),
    Column("told", "api, gets/s"),
    Column("share", "of the bare handler's", 2),
)
HELD = (
    Column("held", "replies held"),
    Column("per_second", "ends/s"),
    Column("kib", "memory of each, KiB", 1),
    Column("p50_ms", "end to reply, p50 ms", 1),
    Column("p99_ms", "p99 ms", 1),
)
NOTE = (
    "In turn: gets of ended operations over 64 connections to a bare aiohttp.web handler that "
    "answers a constant, and to `api`."
)
HELD_NOTE = (
    "Memory is what the process of `api` grew by, once, as it keeps what it has; the other table's "
    "requests came before. Ends are written to Redis and published as its script does."
)
IDS = 1_000


def run(plan: Plan) -> list[Table]:
    """Ask both in turn, some times; then have replies held, and end them."""
    folder = tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp")
    with open_rig() as rig, Nursery() as nursery, folder as at:
        bare, api = free_port(), free_port()
        command = [sys.executable, "-m", "benchmarks.bare_server", str(bare)]
        nursery.start(command, Path(os.devnull), {"PYTHONPATH": str(ROOT)})
        server = nursery.start([sys.executable, str(ROOT / "worker.py"), "api"], Path(at, "log"), {
            "TRACKER_BEANSTALKD__SERVERS": f'["{rig.stack.beanstalkd.url}"]',
            "TRACKER_REDIS__URL": rig.stack.redis.url,
            "TRACKER_MONGODB__URI": rig.stack.mongodb.url,
            "TRACKER_API__LISTEN": f"127.0.0.1:{api}",
            "TRACKER_HTTP__CONNECTIONS": "12000",
            "TRACKER_INGEST__SPOOL": f"{at}/spool.sqlite",
            "TRACKER_INGEST__KEYS": f"{at}/keys.json",
        })  # fmt: skip
        for port in (bare, api):
            wait_for(port, BOOT_SECONDS)
        for each in range(IDS):
            rig.redis.set(f"{STATUS}id-{each}", ENDED)
        rows: list[dict[str, Value]] = []
        for turn in range(1, plan.pick(5, 2) + 1):
            plan.say(f"round {turn}")
            rows.append({"round": turn, **_asked(bare, api, plan.pick(20_000, 3_000))})
        plan.say("replies held")
        most, some = plan.pick((10_000, 5_000), (1_000, 500))
        # All are to have ended before the first reply is held for its 60 s.
        held = [_held(rig, api, server.pid, most, most / 25.0)]
        held.append(_held(rig, api, server.pid, some, 200.0) | {"kib": None})
    asked = Table("operations", "What became of requests, asked over HTTP", ASKED, rows, NOTE)
    return [asked, Table("held_replies", "Replies that are held", HELD, held, HELD_NOTE)]


def _asked(bare: int, api: int, count: int) -> dict[str, Value]:
    paths = [f"/v1/operations/id-{each % IDS}" for each in range(count)]
    constant = gets_per_second(bare, paths, SINGLY)
    told = gets_per_second(api, paths, SINGLY)
    return {"bare": round(constant), "told": round(told), "share": told / constant}


def _held(rig: Rig, api: int, pid: int, count: int, rate: float) -> dict[str, Value]:
    before = _resident_kib(pid)
    spans, kib = asyncio.run(_hold_and_end(rig.stack.redis.url, api, pid, count, rate))
    parts = statistics.quantiles(spans, n=100)
    return {
        "held": count,
        "per_second": round(rate),
        "kib": (kib - before) / count,
        "p50_ms": 1_000 * parts[49],
        "p99_ms": 1_000 * parts[98],
    }


async def _hold_and_end(
    url: str, api: int, pid: int, count: int, rate: float
) -> tuple[list[float], int]:
    async with (
        Redis.from_url(url, decode_responses=True) as redis,
        holding(api, redis, count) as held,
    ):
        kib = _resident_kib(pid)
        return await end_all(held, redis, rate), kib


def _resident_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found  # noqa: S101 - the kernel writes it
    return int(found[1])


SCENARIO = Scenario(
    "operations", "how fast api tells of operations, and what held replies cost", run
)
