"""Parcels whose checks are due, lines that take some of them, and what was put."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

import greenstalk

from devstack.servers import Server
from service.worker.results.connection import Store
from service.worker.results.database import Document
from service.worker.tubes.envelope import REQUESTS_TUBE
from service.worker.upkeep import recheck
from tracking.errors import LimitsBroken
from tracking.request import Account, Slug

USPS, UPS = Slug("usps"), Slug("ups")
NUMBER = "9405903699300184125060"
NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DUE = NOW - dt.timedelta(minutes=5)
RESETS = NOW + dt.timedelta(hours=12)
NOBODY = "127.0.0.1:1"


def parcel(slug: str, number: str = NUMBER, due: object = DUE, **more: object) -> Document:
    names = {"_id": f"{slug}:{number}", "slug": slug, "tracking_number": number}
    return {**names, "active": True, "next_check_at": due, **more}


def parcels(slug: str, count: int, due: dt.datetime = DUE) -> list[Document]:
    return [parcel(slug, f"N{index:06}", due) for index in range(count)]


def stored(store: Store, name: str = f"usps:{NUMBER}") -> Document:
    document = store.tracking.find_one({"_id": name})
    assert document is not None
    return document


def put_on(beanstalkd: Server) -> list[Document]:
    """The payloads of all jobs, in the order in which they were put."""
    found = []
    with greenstalk.Client((beanstalkd.host, beanstalkd.port), watch=REQUESTS_TUBE) as client:
        while True:
            try:
                job = client.reserve(timeout=0)
            except greenstalk.TimedOutError:
                return found
            found.append(json.loads(job.body)["payload"])
            client.delete(job)


class Room:
    """Lines that take so many re-checks, and so many in a call."""

    def __init__(self, room: dict[str, int], numbers: dict[str, int] | None = None) -> None:
        self.room_of = room
        self.numbers = numbers or {}
        self.used_up: frozenset[Account] = frozenset()

    async def resting(self) -> tuple[frozenset[Account], float]:
        return self.used_up, RESETS.timestamp()

    async def room(self, slug: Slug, most: int, within: float) -> int:
        assert within == recheck.AHEAD.total_seconds()
        if slug not in self.room_of:
            raise LimitsBroken("what Redis holds cannot be worked with (WRONGTYPE)", "Mend it.")
        return min(most, self.room_of[slug])

    def together(self, slug: Slug) -> int:
        return self.numbers.get(slug, 1)


class Leases:
    """The couriers that this process plans, as long as nobody takes them from it."""

    def __init__(self, *slugs: Slug) -> None:
        self.slugs = slugs
        self.asked: list[Sequence[Slug]] = []

    async def hold(self, slugs: Sequence[Slug]) -> list[Slug]:
        self.asked.append(slugs)
        return [each for each in slugs if each in self.slugs]
