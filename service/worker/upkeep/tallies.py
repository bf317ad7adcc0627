"""Tallying counts malformed jobs, makes longer spans, and keeps days in MongoDB.

Every process does it; spans are made of sums that only grow, so that two at once are harmless.
"""

from __future__ import annotations

from limits.admin.statistics import Tallies
from service.observe.background import rest
from service.observe.log import emit_unexpected
from service.worker.results.connection import Store
from service.worker.results.database import log_refused
from service.worker.results.statistics import save_days
from tracking.errors import AWAY, LimitsBroken, LimitsDown

PERIOD_SECONDS = 10.0
"""The shortest span in which anything is counted."""

SPANS_EVERY = 6
"""Periods between two looks at the spans: the newest 10 minutes of all couriers lag so much."""


class Tallying:
    """Implements `service.ports.MalformedCounts` as well."""

    def __init__(self, tallies: Tallies, store: Store) -> None:
        self._tallies = tallies
        self._store = store
        self._malformed = 0

    def count(self) -> None:
        """Count a job that was no request. Those of the last seconds before a kill are lost."""
        self._malformed += 1

    async def run(self) -> None:
        """Write what was counted, and make spans, until cancelled."""
        while True:
            for _ in range(SPANS_EVERY):
                await rest(PERIOD_SECONDS)
                await self.write()
            try:
                await self.make_spans()
            except LimitsBroken as error:
                emit_unexpected(error)
            except AWAY:
                continue  # said elsewhere; what was not made is made the next time

    async def write(self) -> None:
        """Write what was counted; while Redis is away it goes on waiting."""
        counted, self._malformed = self._malformed, 0
        try:
            if counted:
                await self._tallies.count_malformed(counted)
        except (LimitsBroken, LimitsDown):
            self._malformed += counted

    async def make_spans(self) -> None:
        """Make the spans of now and of all since the last time. Raises LimitsDown, ResultsDown."""
        made = await self._tallies.make_spans()
        if made.days:
            days = self._store.statistics
            log_refused(days, await self._store.in_background(save_days, days, made.days))
            await self._tallies.kept(made)
