"""Webhooks of a fault run: services with their destinations, and what became of deliveries.

The end of those that hang is what happens to them in five days: once all is mended their failures
are dated back, so that the next one switches the service off.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.scale import DESTINATIONS, HEARD, Scale
from devstack.judge import SECOND_NS, Noted, noted_in
from devstack.receiver import Receiver
from devstack.site.remote import CourierSite
from service.config.load import load
from service.operator.audit import Operator
from service.operator.connections import collections_of
from service.operator.services import Services
from service.worker.deliveries.health import DISABLE_AFTER
from service.worker.results.database import UNTOLD
from tracking.request import MAIN

if TYPE_CHECKING:
    from chaos.arena import Arena

WHO = Operator()
STEP = 1.0
SAID_EVERY = 20.0

OVER_SECONDS = 1_000.0
"""A destination that failed rests for five minutes, and its third attempts come after five."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What MongoDB has once all is over.

    `deliveries` as documents, `noted` their attempts by id, `names` those of services by id, `told`
    the parcels that changed, `untold` how many of their documents still have a mark. The last
    parcel `changed`, and the last attempt was made (`over`) at seconds of `time.monotonic()`.
    """

    deliveries: Sequence[Mapping[str, Any]] = ()
    noted: Mapping[str, Noted] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    untold: int = 0
    changed: float = 0.0
    over: float = 0.0


def make(scale: Scale, site: CourierSite, environment: Mapping[str, str]) -> None:
    """Make a service for each destination, as an account does. No worker may run."""
    config = load(None, environment, Path.cwd()).config
    with collections_of(config) as stores:
        services = Services(config, stores)
        for each in DESTINATIONS:
            receiver = Receiver(site, each.name)
            receiver.behave(**each.behaviour)
            concurrent, per_second = scale.limits_of(each.name)
            wishes = {
                "destination": receiver.url,
                "events": ["parcel.changed"],
                "slugs": [HEARD],
                "attempts": each.attempts,
                "per_second": per_second,
                "concurrent": concurrent,
            }
            services.make(WHO, MAIN, each.name, wishes)


def until_over(arena: Arena, say: Callable[[str], None]) -> list[str]:
    """Wait until every delivery is over or held; returns what is left after too long."""
    if not arena.scale.hooks:
        return []
    with arena.bucket() as bucket:
        long_ago = dt.datetime.now(dt.UTC) - 2 * DISABLE_AFTER
        failing = {"health.failing_since": {"$type": "date"}}
        services = bucket["services"]
        deadline, said = time.monotonic() + OVER_SECONDS, 0.0
        while True:
            hanging = {"name": "hangs", **failing}
            services.update_one(hanging, {"$set": {"health.failing_since": long_ago}})
            left = _open(bucket)
            if not left or time.monotonic() > deadline:
                return [f"{count} deliveries to {name}" for name, count in left.items()]
            if time.monotonic() > said:
                told = ", ".join(f"{name} {count}" for name, count in left.items())
                say(f"deliveries that are left: {told}")
                said = time.monotonic() + SAID_EVERY
            time.sleep(STEP)


def _open(bucket: Any) -> dict[str, int]:
    """Count by service what may still be sent, and parcels of which nobody heard yet."""
    names = {each["_id"]: each["name"] for each in bucket["services"].find()}
    grouped = bucket["deliveries"].aggregate(
        [{"$match": {"state": "open"}}, {"$sortByCount": "$service"}]
    )
    left = {names[each["_id"]]: each["count"] for each in grouped}
    if marked := bucket["tracking"].count_documents({UNTOLD: {"$exists": True}}):
        left["parcels"] = marked
    return left


def delivered(arena: Arena) -> Delivered:
    """Read everything, past the proxies."""
    if not arena.scale.hooks:
        return Delivered()
    with arena.bucket() as bucket:
        heard = bucket["tracking"].find({"slug": HEARD, "checkpoints": {"$ne": []}}, {"_id": 1})
        behind_ns = time.time_ns() - time.monotonic_ns()
        deliveries, rows = list(bucket["deliveries"].find()), list(bucket["attempts"].find())

        def last(of: Sequence[Mapping[str, Any]], name: str) -> float:
            at = max((each[name].timestamp() for each in of), default=0.0)
            return at - behind_ns / SECOND_NS

        return Delivered(
            deliveries=deliveries,
            noted=noted_in(rows, behind_ns),
            changed=last(deliveries, "made_at"),
            over=last(rows, "at"),
            names={each["_id"]: each["name"] for each in bucket["services"].find()},
            told=frozenset(each["_id"] for each in heard),
            untold=bucket["tracking"].count_documents({UNTOLD: {"$exists": True}}),
        )
