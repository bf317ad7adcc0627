"""Parcels that no shipment follows any more are not asked about again by themselves."""

from __future__ import annotations

import datetime as dt

from service.results.connection import Store
from service.results.database import Document, Names
from service.tubes.putter import Putter
from service.upkeep.recheck import Recheck
from tracking.request import Slug

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
NUMBERS = ("N000001", "N000002")


def parcel(number: str) -> Document:
    names = {"_id": f"usps:{number}", "slug": "usps", "tracking_number": number}
    return {**names, "active": True, "next_check_at": NOW - dt.timedelta(minutes=5)}


async def test_their_checks_end_when_they_are_due(
    mongo_uri: str, database: str, putter: Putter
) -> None:
    store = Store(Names(mongo_uri, database), lambda _: None)
    store.tracking.insert_many(map(parcel, NUMBERS))
    ended = {"parcel": "usps:N000001", "completed": {"reason": "LOST"}, "deleted": False}
    store.shipments.insert_one({"_id": "0a", **ended})

    count = await Recheck(store, putter, (Slug("usps"),)).look(lambda: NOW)

    planned = [each["next_check_at"] for each in store.tracking.find(sort=["_id"])]
    assert count == 1
    assert planned[0] is None
    assert planned[1] > NOW
    await store.close()
