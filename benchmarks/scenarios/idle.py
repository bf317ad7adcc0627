"""What a worker costs that has nothing to do."""

from __future__ import annotations

import time

from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.redis_figures import traffic
from benchmarks.rig import Rig, open_rig, slugs
from benchmarks.worker_tree import Setting, pss

COLUMNS = (
    Column("slugs", "configured couriers"),
    Column("seconds", "seconds"),
    Column("worker_percent", "worker % of a core", 2),
    Column("redis_percent", "Redis %", 2),
    Column("beanstalkd_percent", "beanstalkd %", 2),
    Column("mongodb_percent", "mongod %", 2),
    Column("redis_s", "scripts/s", 2),
    Column("commands_s", "Redis commands/s", 1),
    Column("beanstalkd_s", "beanstalkd commands/s", 2),
    Column("pss_mb", "PSS, MB", 1),
)
NOTE = (
    "The whole process tree: a parent, one worker process, and the one that archives; PSS is its "
    "memory. Redis commands: those within scripts, too. mongod's share is its own idling."
)
SETTLE_SECONDS = 80.0
"""The process that archives starts behind the worker. Neither their starts nor their first looks
are rest: the first count of deliveries comes after a minute."""

OWN_COMMANDS = 2
"""Redis counts two of our questions between two readings."""


FULL = ((5, 60.0), (50, 60.0), (1_200, 180.0))
QUICK = tuple((couriers, 10.0) for couriers, _ in FULL)


def idle(rig: Rig, couriers: int, seconds: float) -> dict[str, Value]:
    """Let a worker wait for `seconds`; gives a row."""
    rig.clean()
    with rig.worker(Setting(slugs(couriers))) as worker:
        time.sleep(SETTLE_SECONDS)
        meter, asked, told = rig.meter(worker), traffic(rig.redis), _commands(rig)
        before, began = meter.read(), time.monotonic()
        time.sleep(seconds)
        used, elapsed = meter.since(before), time.monotonic() - began
        sent, said = traffic(rig.redis).since(asked), _commands(rig) - told
        memory = sum(map(pss, worker.pids))
    return {
        "slugs": couriers,
        "seconds": round(elapsed),
        **{f"{name}_percent": spent / elapsed * 100 for name, spent in used.items()},
        "redis_s": sent.scripts / elapsed,
        "commands_s": (sent.scripts + sent.commands - OWN_COMMANDS) / elapsed,
        "beanstalkd_s": (said - 1) / elapsed,  # our own question is one of them
        "pss_mb": memory / 1e6,
    }


def _commands(rig: Rig) -> int:
    """How many commands beanstalkd has carried out."""
    return sum(count for name, count in rig.tubes.stats().items() if name.startswith("cmd-"))


def run(plan: Plan) -> list[Table]:
    """Measure with few and with many configured couriers."""
    rows = []
    with open_rig() as rig:
        for couriers, seconds in plan.pick(FULL, QUICK):
            plan.say(f"nothing to do, {couriers:,} couriers configured")
            rows.append(idle(rig, couriers, plan.seconds or seconds))
    return [Table("idle", "Idle", COLUMNS, rows, NOTE)]


SCENARIO = Scenario("idle", "the cost of waiting for work", run)
