"""Reading the collection `tracking`, for people and for re-checks."""

from __future__ import annotations

import datetime as dt

from pymongo import ASCENDING
from pymongo.collection import Collection

from service.results.connection import Document
from tracking.request import Number, Slug


def find_tracking(tracking: Collection[Document], slug: Slug, number: Number) -> Document | None:
    """The stored document of one parcel, None when there is none."""
    return tracking.find_one({"_id": f"{slug}:{number}"})


def due_for_check(tracking: Collection[Document], now: dt.datetime, limit: int) -> list[Document]:
    """Active parcels whose next check is due, the longest due first; id, slug, number, due."""
    wanted = {"active": True, "next_check_at": {"$lte": now}}
    fields = {"slug": 1, "tracking_number": 1, "next_check_at": 1}
    return list(tracking.find(wanted, fields).sort("next_check_at", ASCENDING).limit(limit))


def put_off_check(
    tracking: Collection[Document], id_: str, due: dt.datetime, until: dt.datetime
) -> None:
    """Move a check that was put on the tube; only if nobody else has moved it since."""
    tracking.update_one({"_id": id_, "next_check_at": due}, {"$set": {"next_check_at": until}})
