"""A check that is due is put on the tube first, and only then put off."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from typing import Any

import greenstalk
import pytest

from devstack.servers import Server
from service.results.connection import Names, Store
from service.tubes.envelope import REQUESTS_TUBE
from service.tubes.putter import Putter
from service.upkeep.recheck import PUT_OFF, Recheck
from tracking.errors import TubesDown
from tracking.request import Slug

USPS = Slug("usps")
NUMBER = "9405903699300184125060"
NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DUE = NOW - dt.timedelta(minutes=5)
NOBODY = "127.0.0.1:1"


@pytest.fixture
async def store(mongo_uri: str, database: str) -> AsyncIterator[Store]:
    opened = Store(Names(mongo_uri, database), lambda _: None)
    parcel = {"slug": "usps", "tracking_number": NUMBER, "active": True, "next_check_at": DUE}
    opened.tracking.insert_one({"_id": f"usps:{NUMBER}", **parcel})
    yield opened
    await opened.close()


def next_check(store: Store) -> dt.datetime:
    document = store.tracking.find_one({"_id": f"usps:{NUMBER}"})
    assert document is not None
    at: dt.datetime = document["next_check_at"]
    return at


def reserved(beanstalkd: Server) -> dict[str, Any]:
    with greenstalk.Client((beanstalkd.host, beanstalkd.port), watch=REQUESTS_TUBE) as client:
        job: dict[str, Any] = json.loads(client.reserve(timeout=2).body)
    return job


async def test_a_check_stays_due_until_its_request_is_put(store: Store) -> None:
    putter = Putter([NOBODY])

    with pytest.raises(TubesDown):
        await Recheck(store, putter, [USPS]).look(lambda: NOW)

    putter.close()
    assert next_check(store) == DUE


async def test_a_due_check_is_put_as_an_automatic_request_and_put_off(
    store: Store, beanstalkd: Server
) -> None:
    putter = Putter([beanstalkd.url])

    count = await Recheck(store, putter, [USPS]).look(lambda: NOW)

    putter.close()
    payload = reserved(beanstalkd)["payload"]
    assert count == 1
    assert (payload["slug"], payload["number"], payload["origin"]) == ("usps", NUMBER, "AUTOMATIC")
    assert next_check(store) == NOW + PUT_OFF


async def test_a_courier_that_is_not_there_any_more_is_not_asked(store: Store) -> None:
    putter = Putter([NOBODY])

    count = await Recheck(store, putter, []).look(lambda: NOW)

    putter.close()
    assert count == 0
    assert next_check(store) == DUE
