"""Whether most servers have what Redis did: a failover would lose what only the primary has.

Of n servers, the primary among them, n // 2 replicas make the majority with it: then no other
primary can have one beside it. A worker learns from the epoch how many are to confirm a step
(epoch.py); people's steps ask.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import NoPermissionError, ResponseError

from limits.failure import Unconfirmed

LEAST = "min-replicas-to-write"
CONFIRM_MS = 1_000
"""How long Redis waits for a replica: it answers in milliseconds, or is cut off or frozen."""


async def confirmations(redis: Redis) -> int:
    """Ask how many replicas are to confirm what is done here; 0 where it may work without any."""
    try:
        told = await redis.info("replication")
    except NoPermissionError:
        return 0
    if "min_slaves_good_slaves" not in told:
        return 0
    wanted = 1
    with suppress(ResponseError):  # not allowed to this user, or not offered by this provider
        wanted = int((await redis.config_get(LEAST)).get(LEAST) or wanted)
    return max(wanted, (int(told["connected_slaves"]) + 1) // 2)


async def executed(pipeline: Pipeline, *, confirmed: int) -> list[Any]:
    """Execute a pipeline, and wait until so many replicas have what it did.

    Refusals are among the replies; where too few have it, each of them is Unconfirmed.
    """
    if confirmed:
        pipeline.execute_command("WAIT", confirmed, CONFIRM_MS)
    replies: list[Any] = await pipeline.execute(raise_on_error=False)
    # The reply to WAIT is an error where Redis was demoted while it waited.
    if confirmed and not (isinstance(waited := replies.pop(), int) and waited >= confirmed):
        return [Unconfirmed() for _ in replies]
    return replies


async def done(pipeline: Pipeline, *, confirmed: int) -> None:
    """Do the same, and raise the first refusal."""
    for reply in await executed(pipeline, confirmed=confirmed):
        if isinstance(reply, Exception):
            raise reply
