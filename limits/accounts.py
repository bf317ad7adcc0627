"""Accounts in Redis, whose numbers stand apart: who has any, and how records came to be apart.

Before form 2 a number had one record for all accounts. Such a record is parted before this process
grants anything, and while no worker of a version before runs (lua/split.lua).
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from limits import keys
from limits.clock import Clock
from limits.codec import write_rules
from limits.failure import redis_asked
from limits.pipeline import Pipeline
from limits.rules import NOBODY, RulesOf
from limits.workers import FORM, LiveWorker, live_workers
from tracking.account import Account
from tracking.line import Line, kind_of


async def accounts_in(redis: Redis) -> list[Account]:
    """All but main that ever asked for a parcel (lua/admit.lua notes them), by name."""
    return sorted(Account(str(each)) for each in await redis.smembers(keys.ACCOUNTS))


async def older_workers(redis: Redis) -> Sequence[LiveWorker]:
    """List the live workers of versions that write records in another form. Raises LimitsDown."""
    with redis_asked():
        seconds, _ = await redis.time()
        return [each for each in await live_workers(redis, seconds * 1000) if each.form < FORM]


async def part_accounts(redis: Redis, rules_of: RulesOf, *, again: bool = False) -> int:
    """Part what accounts shared, where nobody did so before. Raises LimitsDown; may be repeated.

    `again`: in any case, because a worker of a version before was there. Returns how many records
    were parted.
    """
    pipeline = Pipeline(redis, Clock())
    with redis_asked():
        if await redis.get(keys.FORM) == str(FORM) and not again:
            return 0
        lines = [Line(str(name)) for name in sorted(await redis.smembers(keys.LINES))]
    parted = 0
    for line in filter(kind_of, lines):
        rules, cursor = write_rules(rules_of(line), NOBODY), "0"
        while True:
            args = (rules, b"[]", cursor)
            _, cursor, some = await pipeline.run("split", [keys.wait_list(line)], args)
            parted += int(some)
            if cursor == "0":
                break
    with redis_asked():
        await redis.set(keys.FORM, str(FORM))
    return parted
