"""`/v1/quotas`: what an account may have, how much of it is used, and when that ends."""

from __future__ import annotations

from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from service.config.schema import Config
from service.http.callers import Callers
from service.http.exchange import About, Route, answer
from service.http.reading import MOMENT
from service.operator.connections import Collections, in_thread
from service.operator.keys import Scope
from service.operator.quotas import Quota, quotas_of


class QuotaNow(msgspec.Struct):
    """A quota of an account."""

    allowed: Annotated[int | None, Meta(description="null: any number")]
    used: Annotated[
        int | None, Meta(description="null where nothing is counted, or cannot be asked now")
    ]
    resets_at: Annotated[
        MOMENT | None, Meta(description="when none is used again; null: it goes with the parcels")
    ]


class QuotasNow(msgspec.Struct):
    """The quotas of the account of a key."""

    calls_a_day: Annotated[QuotaNow, Meta(description="calls to couriers on a UTC day")]
    parcels: Annotated[
        QuotaNow, Meta(description="parcels that are followed: neither delivered nor expired")
    ]
    requests_a_minute: Annotated[
        QuotaNow, Meta(description="requests with keys of the account, at this process")
    ]


class QuotaRoutes:
    """The route."""

    def __init__(self, config: Config, stores: Collections, callers: Callers) -> None:
        self._config = config
        self._stores = stores
        self._callers = callers

    def routes(self) -> list[Route]:
        """Name it."""
        return [Route("GET", "/v1/quotas", self.show, _QUOTAS)]

    async def show(self, request: web.Request) -> web.Response:
        """Show the quotas of who asks. Raises Problem, StoreError."""
        account = self._callers.account(request, Scope.READ)
        found = await in_thread(quotas_of, self._config, self._stores, [account])
        uses = {**found[account], Quota.REQUESTS: self._callers.minutes.use(account)}
        return answer(QuotasNow(*(QuotaNow(*uses[each]) for each in Quota)))


_QUOTAS = About("Tell what your account may have, and what is used.", Scope.READ, {200: QuotasNow})
