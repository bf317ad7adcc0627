"""Each account's document of a parcel is checked again for its account, with its own fields."""

from __future__ import annotations

import datetime as dt
import json

import greenstalk

from devstack.servers import Server
from service.results.connection import Store
from service.results.database import Document, Names
from service.tubes.envelope import REQUESTS_TUBE
from service.tubes.putter import Putter
from service.upkeep.recheck import Recheck
from tracking.request import Slug

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
FIELDS = {"tracking_postal_code": "8000"}
MAINS = {
    "_id": "usps:N000001",
    "slug": "usps",
    "tracking_number": "N000001",
    "active": True,
    "next_check_at": NOW,
}


def put_on(beanstalkd: Server) -> Document:
    with greenstalk.Client((beanstalkd.host, beanstalkd.port), watch=REQUESTS_TUBE) as client:
        job = client.reserve(timeout=5)
        client.delete(job)
        payload: Document = json.loads(job.body)["payload"]
        return payload


async def test_each_account_s_document_is_asked_for_with_its_own_fields(
    mongo_uri: str, database: str, putter: Putter, beanstalkd: Server
) -> None:
    store = Store(Names(mongo_uri, database), lambda _: None)
    shops = MAINS | {"_id": f"{MAINS['_id']}@shop", "account": "shop", "fields": FIELDS}
    store.tracking.insert_many([MAINS, shops])

    assert await Recheck(store, putter, (Slug("usps"),)).look(lambda: NOW) == 2

    asked = [put_on(beanstalkd) for _ in range(2)]
    of_main, of_shop = sorted(asked, key=lambda payload: "account" in payload)
    assert of_main.keys() & {"account", *FIELDS} == set()
    assert of_shop.items() >= {"account": "shop", **FIELDS}.items()
    await store.close()
