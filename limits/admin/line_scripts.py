"""Scripts of a line, run for people: they neither call nor drain, and go by the newest rules."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from redis.asyncio import Redis

from limits import keys
from limits.clock import Clock
from limits.failure import redis_asked
from limits.keys import write_rules
from limits.pipeline import Pipeline, Value
from limits.rules import NOBODY, RuleBook, RulesOf
from tracking.errors import StoreError
from tracking.line import Line

_NO_REPORTS = b"[]"
"""Of sends: who does not call measured none (lua/lib/batch.lua)."""


class LineScripts:
    """Runs scripts. Every method raises LimitsDown; what a script does may be repeated then.

    `reads_only`: what the scripts do waits for no replica.
    """

    def __init__(
        self,
        redis: Redis,
        rules_of: RulesOf,
        revisions: RuleBook | None = None,
        *,
        reads_only: bool = False,
    ) -> None:
        self._redis = redis
        self._pipeline = Pipeline(redis, Clock())
        if reads_only:
            self._pipeline.confirmed = 0
        self.rules_of = rules_of
        self._revisions = revisions

    async def run(self, script: str, line: Line, *args: Value) -> list[Any]:
        """Run a script; returns all of its answer, the time first."""
        told = {**NOBODY, **(self._revisions.rationed(line) if self._revisions else {})}
        rules = write_rules(self.rules_of(line), told)
        names = [keys.wait_list(line)]
        return list(await self._pipeline.run(script, names, (rules, _NO_REPORTS, *args)))

    async def learn_rules(self) -> None:
        """Go by the newest rules; by those that are known where nobody can tell newer ones."""
        if self._revisions is None:
            return
        if await newest_revision(self._redis) != self._revisions.revision:
            with suppress(StoreError):
                await self._revisions.learn()


async def newest_revision(redis: Redis) -> int:
    """The revision of the rules by which calls are granted. Raises LimitsDown."""
    with redis_asked():
        return int(await redis.get(keys.REVISION) or 0)
