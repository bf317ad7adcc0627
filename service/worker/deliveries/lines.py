"""The lines of services: one for each, with the limits that it has.

============================= ==================================================================
a line of                     goes by
============================= ==================================================================
a service                     its own limits; one call at once where its deliveries are ordered
a deleted service             wide ones, as long as Redis holds something of it: what waits is
                              taken, nothing is sent, and the line is cleared soon
a service not known here      the limits of the configuration; nothing is granted there, because
                              this process goes by an older revision
============================= ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from limits.rules import Rules
from service.config.schema import Config, delivery_lease_seconds, delivery_seconds
from service.worker.deliveries.service import Service
from service.worker.deliveries.subscriptions import Subscriptions
from tracking.line import DELIVERY, Line

WINDOW = 1_000
"""Deliveries of a service that wait in Redis at most; all others wait in MongoDB."""

LOW_SECONDS = 10
"""For so long what is in Redis of a service lasts at its rate when it is filled again, twice as
long then: what a line could not start anyway costs MongoDB, a worker and Redis for nothing."""

WIDE = 1_000
"""Calls at once, and starts a second, of a line on which nothing is sent."""


def window_of(concurrent: int, per_second: int) -> int:
    """Say how many deliveries of a service with these limits Redis holds at most."""
    return min(WINDOW, 2 * (concurrent + LOW_SECONDS * per_second))


class ServiceLines:
    """The lines of the kind DELIVERY; implements `service.ports.Lines`."""

    def __init__(self, config: Config, subscriptions: Subscriptions) -> None:
        self._config = config
        self._subscriptions = subscriptions
        self._rules: dict[Line, tuple[Service, Rules]] = {}
        webhooks = config.webhooks
        seconds = webhooks.timeout_seconds
        self._unknown = self._of(webhooks.concurrent, webhooks.per_second, seconds)
        self._deleted = self._of(WIDE, WIDE, seconds)

    def known(self) -> Sequence[Line]:
        """List the lines of all services, and those of deleted ones of which something is left."""
        of_services = (each.line for each in self._subscriptions.all())
        return (*of_services, *self._subscriptions.leftovers.lines())

    def rules_of(self, line: Line) -> Rules:
        """Express the limits of a service as `limits` wants them."""
        service = self._subscriptions.by_line(line)
        if service is None:
            self._rules.pop(line, None)
            is_deleted = line in self._subscriptions.leftovers.lines()
            return self._deleted if is_deleted else self._unknown
        kept = self._rules.get(line)
        if kept is None or kept[0] is not service:
            concurrent = 1 if service.ordered else service.concurrent
            rules = self._of(concurrent, service.per_second, service.timeout_seconds)
            kept = self._rules[line] = service, rules
        return kept[1]

    def mark_of(self, _: Line) -> str:
        """Give none: no delivery depends on credentials of this service."""
        return ""

    def is_marked(self, _: Line, mark: str) -> bool:
        """Whether the mark is none."""
        return not mark

    def removed(self) -> Sequence[Line]:
        """List the lines of deleted services of which Redis may still hold something."""
        return self._subscriptions.leftovers.lines()

    def cleared(self, line: Line) -> None:
        """Take note that Redis holds nothing of it any more."""
        self._subscriptions.leftovers.clear(line)

    def _of(self, concurrent: int, per_second: int, timeout_seconds: float) -> Rules:
        return Rules(
            concurrent=concurrent,
            per_second=per_second,
            guard_ms=self._config.limits.guard_ms,
            call_timeout_seconds=delivery_seconds(self._config, timeout_seconds),
            lease_seconds=delivery_lease_seconds(self._config, timeout_seconds),
            max_waiting=window_of(concurrent, per_second),
            kind=DELIVERY,
        )
