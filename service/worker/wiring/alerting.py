"""What looks after webhooks in the process that archives: keeps, counts, alerts, sends mails.

================= =================================================================================
task              does
================= =================================================================================
`held deliveries` holds or cancels what no service takes any more, and bounds what accounts have;
                  where there is no service it does not look
`alerts`          has people hear of trouble, and of its end
`mails`           sends what is written down for them
`totals`          counts what became of deliveries, and writes the digests of a day
`words`           writes down by which words relayed requests are found; looks as the first does
================= =================================================================================

One process does it at a time, the one that archives; two at once make nothing twice.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from redis.asyncio import Redis

from limits.admin.pause import Pauses
from service.config.domain import rules_for, slugs_of
from service.config.schema import Config
from service.observe.background import Background
from service.worker.deliveries import alerts, keeper, mail, totals, words
from service.worker.deliveries.alerts import Addresses, Alerts
from service.worker.deliveries.keeper import Bounds, Keeper
from service.worker.deliveries.mail import Mailer
from service.worker.deliveries.service_events import ServiceEvents
from service.worker.deliveries.subscriptions import Subscriptions, announce
from service.worker.deliveries.totals import Totals
from service.worker.deliveries.words import Words
from service.worker.results.connection import Store
from tracking.line import courier_line

Look = Callable[[], Awaitable[None]]


class Asked(NamedTuple):
    """What the tasks ask: the stores, and what this process knows of services, while it archives.

    `is_ours`: whether this process is the one that does it.
    """

    store: Store
    redis: Redis
    services: Subscriptions
    is_ours: Callable[[], bool]

    def serves(self) -> bool:
        """Whether it is ours, and there is a service of which anything is left."""
        return self.is_ours() and not self.services.are_none


def start_looking_after(background: Background, config: Config, asked: Asked) -> None:
    """Start all of it."""
    webhooks, smtp, (store, redis, _, is_ours) = config.webhooks, config.mail, asked
    bounds = Bounds(webhooks.open_most, webhooks.open_gib, webhooks.keep_days)
    addresses = Addresses(by_mail=bool(smtp.host), operators=smtp.operators)
    looks: dict[str, tuple[Look, float]] = {
        "held deliveries": (
            Keeper(store, bounds, functools.partial(announce, store, redis)).look,
            keeper.PERIOD_SECONDS,
        ),
        "alerts": (
            Alerts(store, addresses, refused_by(config, redis), ServiceEvents(store)).look,
            alerts.PERIOD_SECONDS,
        ),
        "totals": (Totals(store, addresses).look, totals.PERIOD_SECONDS),
        "words": (Words(store).look, words.PERIOD_SECONDS),
    }
    if smtp.host:
        looks["mails"] = Mailer(store, smtp).look, mail.PERIOD_SECONDS
    for name, (look, seconds) in looks.items():
        may = asked.serves if name in {"held deliveries", "words"} else is_ours
        background.keep_looking(name, look, seconds, may)


def refused_by(config: Config, redis: Redis) -> Callable[[], Awaitable[Sequence[str]]]:
    """Make what lists the couriers that stand because they refused our credentials."""
    pauses = Pauses(redis, functools.partial(rules_for, config))
    lines = [courier_line(slug) for slug in slugs_of(config)]

    async def refused() -> Sequence[str]:
        return sorted(await pauses.marks(lines))

    return refused
