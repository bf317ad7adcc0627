"""Asks couriers, with the tokens that all calls of a process share."""

from __future__ import annotations

from collections.abc import Awaitable

import aiohttp

from couriers.http.fetch import Fetch
from couriers.http.tokens import TokenCache
from couriers.registry import Registry
from tracking.call import Call
from tracking.checkpoint import Tracking


class Tracker:
    """One per process."""

    def __init__(self, registry: Registry, http: aiohttp.ClientSession) -> None:
        self._registry = registry
        self._http = http
        self._tokens = TokenCache()

    def track(self, call: Call) -> Awaitable[Tracking]:
        """Spend the call's permit at its courier. Raises as `Registry.track`, now or awaited."""
        request = call.request
        settings = self._registry.settings(request.slug)
        fetch = Fetch(self._http, settings, call.permit, self._tokens, request.traceparent)
        return self._registry.track(fetch, request)
