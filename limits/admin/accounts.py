"""The register of accounts, their quotas of calls, and the upgrade of records that they shared.

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
from limits.admin.soundness import busy_lines
from limits.clock import Clock
from limits.failure import redis_asked
from limits.pipeline import Pipeline
from limits.rules import RulesOf
from limits.steps import ration
from limits.workers import FORM
from tracking.line import Line, is_courier
from tracking.request import Account


async def accounts_in(redis: Redis) -> list[Account]:
    """All but main that ever asked for a parcel (lua/admit.lua notes them), by name."""
    return sorted(Account(str(each)) for each in await redis.smembers(keys.ACCOUNTS))


class AccountQuotas:
    """The quotas of calls a day, for people. Every method raises LimitsDown; repeat it then."""

    def __init__(self, redis: Redis, rules_of: RulesOf) -> None:
        self._redis = redis
        self._scripts = LineScripts(redis, rules_of)

    async def set(self, account: Account, quotas: Mapping[Account, int], revision: int) -> None:
        """Have all quotas hold from now on, of which this account's is new.

        What waited for the end of the old one is due within seconds (lua/wake.lua).
        """
        await ration(Pipeline(self._redis, Clock()), quotas, revision)
        with redis_asked():
            lines = filter(is_courier, await busy_lines(self._redis))
        for line in lines:
            passed = "0"
            while passed:
                _, _, passed = await self._scripts.run("wake", line, account, passed)

    async def calls_today(self) -> dict[Account, int]:
        """How many calls each account that has a quota had on this day (UTC)."""
        with redis_asked():
            told = await self._redis.hgetall(keys.ACCOUNT_CALLS)
        return {Account(str(account)): int(calls) for account, calls in told.items()}


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
