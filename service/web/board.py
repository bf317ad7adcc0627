"""What operators' pages show of the whole service: asked once, however many pages are open.

A page that shows what another one asked a moment ago shows the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from service.config.schema import Config
from service.http.serve import Backing
from service.operator.accounts import accounts
from service.operator.attention import Concern, concerns_of, used_up
from service.operator.connections import Collections, in_thread
from service.operator.look import AtWork, Lines, LineSnapshot, Tubes, at_work
from service.operator.parcels import Counts, Today, counts_of, today_of
from service.operator.producer import Producer
from service.operator.quotas import Uses, quotas_of
from service.operator.statistics import Statistics, call_rates, statistics_in
from service.web.visitors import Kept
from tracking.errors import StoreError
from tracking.request import Account, Slug

NOW_SECONDS = 1.5
"""How long a look at lines and workers serves: less than live fragments take turns in."""

TUBES_SECONDS = 5.0
"""Longer, as each look at tubes opens connections."""

PATIENCE_SECONDS = 1.0
"""How long a page waits for them: it shows more than these."""

SPAN_SECONDS = 10.0
"""How long statistics serve: the shortest span that is counted."""

RATES_SECONDS = 60.0
RATES_LAST_SECONDS = 4 * 3_600
LASTS: Mapping[str, int] = {"hour": 3_600, "day": 86_400, "month": 30 * 86_400}
"""Of which time statistics are shown: one for each grain in which they are counted."""

PARCELS_SECONDS = 20.0
"""How long counts of an account's parcels serve: a million are counted in tenths of a second."""


class AccountBoard:
    """How accounts stand: their parcels and quotas. Its methods raise StoreError."""

    def __init__(self, config: Config, stores: Collections) -> None:
        self._config = config
        self._stores = stores
        self._kept = Kept()

    async def counts(self, account: Account) -> Counts:
        """Count an account's parcels by tag. Raises Narrow."""
        ask = partial(in_thread, counts_of, self._stores, account)
        return await self._kept.get(("parcels", account), PARCELS_SECONDS, ask)

    async def today(self, account: Account) -> Today:
        """Count what an account's parcels did today. Raises Narrow."""
        ask = partial(in_thread, today_of, self._stores, account)
        return await self._kept.get(("today", account), PARCELS_SECONDS, ask)

    async def quotas(self, account: Account | None = None) -> Mapping[Account, Uses]:
        """Look at what is used of an account's quotas, or of those of all."""
        ask = partial(in_thread, _quotas, self._config, self._stores, account)
        return await self._kept.get(("quotas", account), PARCELS_SECONDS, ask)


class Board:
    """For one event loop. Its methods raise StoreError."""

    def __init__(self, backing: Backing) -> None:
        self.operators = backing.operations.operators
        self.catalogue = backing.catalogue
        self.stores = backing.operations.stored.stores
        self.accounts = AccountBoard(backing.config, self.stores)
        self._door = backing.door
        self._kept = Kept()

    async def lines(self) -> Lines:
        """Look at all lines."""
        ask = partial(self.operators.lines, self.catalogue.slugs)
        return await self._kept.get("lines", NOW_SECONDS, ask)

    def changed(self) -> None:
        """Look at lines again: somebody has just changed one."""
        self._kept.forget()

    async def line(self, named: str) -> LineSnapshot:
        """Look at one line. Raises MalformedJob where there is none."""
        for each in (await self.lines()).told:
            if each.line == named:
                return each
        return await self.operators.line(named, self.catalogue)

    async def at_work(self) -> AtWork:
        """Look at who works, and on what."""
        return await self._kept.get("work", NOW_SECONDS, partial(at_work, self.operators.view))

    async def tubes(self) -> list[Tubes]:
        """Look at what the tubes hold; a server that does not answer says why in its own."""
        servers = self.operators.config.beanstalkd.servers
        ask = partial(in_thread, _tubes, servers)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._kept.get("tubes", TUBES_SECONDS, ask)
        except TimeoutError:
            return [
                Tubes(each, error="one of the servers has not answered yet") for each in servers
            ]

    async def rates(self, slugs: tuple[str, ...]) -> dict[str, list[float]]:
        """Read the calls a second of the last hours, by line."""
        ask = partial(call_rates, self.operators.view, slugs, RATES_LAST_SECONDS)
        return await self._kept.get(("rates", slugs), RATES_SECONDS, ask)

    async def statistics(self, slug: str, last: str) -> Statistics:
        """Read statistics of one slug, or ("") of all, and one of the LASTS."""
        ask = partial(statistics_in, self.operators.view, self.stores, slug, LASTS[last])
        return await self._kept.get((slug, last), SPAN_SECONDS, ask)

    async def concerns(self) -> list[Concern]:
        """List what needs attention, what stops most first; of servers that are away, only that."""
        health = await self._door.health()
        found: list[Concern] = []
        if health.tubes:
            waiting = f"; {health.spooled:,} wait in this door's spool" if health.spooled else ""
            found.append(Concern(f"no beanstalkd takes requests: {health.tubes}{waiting}"))
        try:
            looks = (self.lines(), self.at_work(), self.accounts.quotas())
            lines, work, quotas = await asyncio.gather(*looks)
        except StoreError as error:
            return [*found, Concern(f"{error}")]
        return [*found, *concerns_of(lines, work, self._lacking), *used_up(quotas)]

    def _lacking(self, line: LineSnapshot) -> str:
        return self.catalogue.lacking(Slug(line.line))


def _quotas(config: Config, stores: Collections, account: Account | None) -> Mapping[Account, Uses]:
    there = (each.name for each in accounts(stores) if each.removed_at is None)
    return quotas_of(config, stores, there if account is None else [account])


def _tubes(servers: Sequence[str]) -> list[Tubes]:
    with Producer(servers) as producer:
        return list(producer.tubes())
