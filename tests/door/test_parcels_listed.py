"""`GET /v1/parcels`: an account's parcels, by filters and searches, page after page."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from aftership_ground import Bucket
from door_ground import Client, FixedKeys
from operations_ground import serving_all
from test_parcels_over_http import DOCUMENT

from service.http.callers import Callers
from service.operator.keys import Scope
from service.worker.results.database import Names, indexes_for, make_indexes

AT = dt.datetime(2026, 5, 4, 8, 0, tzinfo=dt.UTC)


@pytest.fixture
def parcels(bucket: Bucket) -> Any:
    """Five parcels of `main`, and one that `shop` has too."""
    make_indexes(bucket["tracking"], indexes_for(Names(""))["tracking"])
    for n in range(5):
        number, changed = f"N{n:05}", {"updated_at": AT + dt.timedelta(hours=n)}
        own = DOCUMENT | {"_id": f"usps:{number}", "tracking_number": number} | changed
        bucket["tracking"].insert_one(own)
    bucket["tracking"].insert_one(own | {"_id": "usps:N00004@shop", "account": "shop"})
    return bucket["tracking"]


async def numbers(client: Client, query: str = "", **more: Any) -> list[str]:
    answered = await client.get(f"/v1/parcels?{query}", **more)
    assert answered.status == 200, await answered.text()
    return [each["tracking_number"] for each in (await answered.json())["parcels"]]


async def test_all_of_an_account_are_listed_page_after_page_by_the_cursor(
    api: Client, parcels: Any
) -> None:
    found, cursor = list[str](), ""
    while True:
        page = await (await api.get(f"/v1/parcels?limit=2{cursor}")).json()
        found += [each["tracking_number"] for each in page["parcels"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"

    assert found == [f"N{n:05}" for n in (4, 3, 2, 1, 0)]
    assert "fields" not in page["parcels"][0]
    assert parcels.count_documents({}) == 6


async def test_a_reader_of_changes_goes_on_behind_what_it_read_last(
    api: Client, parcels: Any
) -> None:
    since = "updated_since=2026-05-04T11:00:00Z&sort=updated"
    first = await (await api.get(f"/v1/parcels?{since}")).json()
    later = {"$set": {"updated_at": AT + dt.timedelta(days=1)}}
    parcels.update_one({"_id": "usps:N00001"}, later)

    assert [each["tracking_number"] for each in first["parcels"]] == ["N00003", "N00004"]
    assert await numbers(api, f"{since}&cursor={first['cursor']}") == ["N00001"]


async def test_filters_searches_and_orders_are_read_and_what_means_nothing_is_refused(
    api: Client, parcels: Any
) -> None:
    assert parcels is not None
    assert await numbers(api, "tag=InTransit&tag=Delivered&slug=usps&active=true&limit=1") == [
        "N00004"
    ]
    assert await numbers(api, "search=n0000-3") == ["N00003"]
    assert await numbers(api, "slug=ups") == await numbers(api, "label=vip") == []
    for wrong in (
        *("tag=Lost", "sort=number", "limit=0", "limit=201", "cursor=x", "active=maybe"),
        *("updated_since=2026-05-04", "number=1", f"search={'1' * 101}"),
    ):
        answered = await api.get(f"/v1/parcels?{wrong}")
        assert answered.status == 400, wrong
        assert (await answered.json())["parameter"] == wrong.partition("=")[0]


async def test_a_key_lists_what_is_its_accounts(
    disk: Path, settings: dict[str, str], parcels: Any
) -> None:
    assert parcels is not None
    keys = FixedKeys()
    reads, posts = keys.make("shop", Scope.READ), keys.make("shop", Scope.INGEST)
    callers = Callers(keys, 1_000.0, always=True)
    async with serving_all(disk / "spool.sqlite", settings, callers=callers) as client:
        assert await numbers(client, headers={"as-api-key": reads}) == ["N00004"]
        refused = await client.get("/v1/parcels", headers={"as-api-key": posts})
        assert refused.status == 403
