"""The register of accounts, and the upgrade of records that accounts shared.

Before form 2 a number had one record for all accounts. Such a record is parted before this process
grants anything, and while no worker of a version before runs (lua/split.lua).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.admin.line_scripts import LineScripts
from limits.admin.running import registered_workers
from limits.failure import redis_asked
from limits.rules import RulesOf
from limits.workers import FORM
from tracking.line import Line, is_courier
from tracking.request import Account


async def accounts_in(redis: Redis) -> list[Account]:
    """All but main that ever asked for a parcel (lua/admit.lua notes them), by name."""
    return sorted(Account(str(each)) for each in await redis.smembers(keys.ACCOUNTS))


async def older_workers(redis: Redis) -> list[str]:
    """Name the live workers that write records in an older form, "host pid". Raises LimitsDown."""
    with redis_asked():
        seconds, _ = await redis.time()
        live = await registered_workers(redis, seconds * 1000)
    return sorted({f"{each['host']} {each['pid']}" for each in live if _is_older(each)})


def _is_older(who: Mapping[str, Any]) -> bool:
    """Whether this is a worker of an older form. Before form 2 no worker named its form."""
    return "pid" in who and who.get("form", 1) < FORM


async def part_accounts(redis: Redis, rules_of: RulesOf, *, again: bool = False) -> int:
    """Part what accounts shared, where nobody did so before. Raises LimitsDown; may be repeated.

    `again`: in any case, because a worker of a version before was there. Returns how many records
    were parted.
    """
    scripts = LineScripts(redis, rules_of)
    with redis_asked():
        if await redis.get(keys.FORM) == str(FORM) and not again:
            return 0
        lines = [Line(str(name)) for name in sorted(await redis.smembers(keys.LINES))]
    parted = 0
    for line in filter(is_courier, lines):
        cursor = "0"
        while True:
            _, cursor, some = await scripts.run("split", line, cursor)
            parted += int(some)
            if cursor == "0":
                break
    with redis_asked():
        await redis.set(keys.FORM, str(FORM))
    return parted
