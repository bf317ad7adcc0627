"""Whether a replica has what Redis did: a failover would lose what only the primary has.

A worker learns from the epoch whether a step counts only then (epoch.py); people's steps ask.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import NoPermissionError

from limits.failure import Unconfirmed

CONFIRM_MS = 1_000
"""How long Redis waits for a replica: it answers in milliseconds, or is cut off or frozen."""


async def must_confirm(redis: Redis) -> bool:
    """Ask whether this Redis takes writes only while it has replicas."""
    try:
        told = await redis.info("replication")
    except NoPermissionError:
        return False
    return "min_slaves_good_slaves" in told


async def executed(pipeline: Pipeline, *, confirmed: bool) -> list[Any]:
    """Execute a pipeline, and wait for a replica where it is to be `confirmed`.

    Refusals are among the replies; where no replica has what was done, each of them is Unconfirmed.
    """
    if confirmed:
        pipeline.execute_command("WAIT", 1, CONFIRM_MS)
    replies: list[Any] = await pipeline.execute(raise_on_error=False)
    # The reply to WAIT is an error where Redis was demoted while it waited.
    if confirmed and not (isinstance(waited := replies.pop(), int) and waited):
        return [Unconfirmed() for _ in replies]
    return replies


async def done(pipeline: Pipeline, *, confirmed: bool) -> None:
    """Do the same, and raise the first refusal."""
    for reply in await executed(pipeline, confirmed=confirmed):
        if isinstance(reply, Exception):
            raise reply
