"""Services that are known to a process, and changes of parcels, for tests of what is told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.worker.deliveries.delivery import Delivery
from service.worker.deliveries.service import SealedSecret, Service, Wanted
from service.worker.results.change import EventName, Mark
from tracking.request import MAIN, Account, Number, Slug

NOW = dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, dt.UTC)
SCAN = {"checkpoint_time": "2026-11-26T11:00:00", "message": "Delivered", "tag": "Delivered"}
SCAN |= {"subtag": "Delivered_001"}


def service(name: str = "a", account: Account = MAIN, **members: Any) -> Service:
    """Make a service of which the id is its name, often."""
    given = {"wanted": Wanted(), "secrets": (SealedSecret("sealed"),), "made_at": NOW} | members
    return Service((name * 16)[:16], account, name, "https://receiver.example/", **given)


@dataclass
class Known:
    """What a process knows of services; `learns`: what it learns when it is asked to."""

    services: list[Service] = field(default_factory=list)
    revision: int = 1
    learns: list[Service] = field(default_factory=list)

    async def learn(self) -> None:
        self.services, self.revision = [*self.services, *self.learns], 2
        self.learns = []

    def hears(self, account: Account) -> bool:
        return not self.revision or bool(self.of(account))

    def of(self, account: Account) -> Sequence[Service]:
        return [each for each in self.services if each.account == account]

    def named(self, account: Account, name: str) -> Service | None:
        return next((each for each in self.of(account) if each.name == name), None)


@dataclass
class Lines:
    """Onto which deliveries are brought in."""

    brought: list[Delivery] = field(default_factory=list)

    def bring(self, deliveries: Sequence[Delivery]) -> None:
        self.brought += deliveries


def mark(name: str = "1", **members: Any) -> Mark:
    """Make the mark of a parcel that was delivered."""
    after = {"tag": "Delivered", "subtag": "Delivered_001", "delivered": True, "updated_at": NOW}
    after |= {"checkpoints": [SCAN], "expected_delivery": None}
    before = {"tag": "InTransit", "subtag": "InTransit_001", "checkpoints": 0}
    given: dict[str, Any] = {
        "id": name * 32,
        "account": MAIN,
        "slug": Slug("usps"),
        "number": Number("94000001"),
        "events": (EventName.PARCEL_CHANGED, EventName.PARCEL_DELIVERED),
        "changed": ("tag", "subtag", "checkpoints"),
        "before": before,
        "after": after,
        "at": NOW,
    }
    return Mark(**(given | members))


def marked_document(*marks: Mark, **members: Any) -> dict[str, Any]:
    """Make the document of a parcel in which marks stand."""
    first = marks[0]
    untold = [
        {name: getattr(each, name) for name in ("id", "before", "after", "at")}
        | {"events": list(each.events), "changed": list(each.changed)}
        for each in marks
    ]
    named = {"slug": first.slug, "tracking_number": first.number}
    return {"_id": first.document, **named, "revision": 3, "untold": untold} | members
