"""Whether the limits were kept since some moment, judged at once by what is in the stream."""

from __future__ import annotations

from redis.asyncio import Redis

from limits import keys
from limits.admin.violations import ANY, LAG_US, Entry, Violations, look
from limits.rules import Rules
from tracking.line import Line


async def watched(redis: Redis, rules: Rules) -> Violations:
    """Begin to judge, with nothing exempted."""
    violations = Violations(lambda _: rules, exempt_us=0)
    await look(redis, violations, ANY)
    return violations


async def judged(redis: Redis, violations: Violations) -> dict[tuple[Line, str], int]:
    """Judge everything, as if the lag were over; the stream still holds so little."""
    seconds, micros = await redis.time()
    epoch = str(await redis.get(keys.EPOCH)).partition(" ")[0]
    found = await redis.xrange(keys.MEASURED)
    entries: list[Entry] = [(int(at.partition("-")[0]), told["m"]) for at, told in found]
    violations.note(int(seconds) * 1_000_000 + int(micros) + 2 * LAG_US, epoch, entries)
    return violations.counts
