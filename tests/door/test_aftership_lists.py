"""Which of AfterShip's trackings are listed, and whose."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from aftership_answers import answer_of, refusal_of
from aftership_ground import AT, DOCUMENT, NUMBER, Bucket, create, listed
from door_ground import NOWHERE, OTHER, Client, FixedKeys
from operations_ground import serving_all

from service.api.callers import Callers
from service.client import connections
from service.client.keys import Scope


async def test_shipments_are_listed_by_what_is_asked_for(api: Client, bucket: Bucket) -> None:
    first = await create(
        api,
        tracking_number=NUMBER,
        slug="usps",
        title="A red (box)",
        origin_country_region="DEU",
        shipment_tags=["gift"],
        custom_fields={"shelf": "B7"},
    )
    await create(api, tracking_number=OTHER["number"], slug="ups", order_id="7")
    bucket.tracking.insert_one(DOCUMENT)

    assert await listed(api) == [OTHER["number"], NUMBER]
    for query in (
        "slug=usps,fedex",
        f"tracking_numbers={NUMBER[:4]}-{NUMBER[4:]}",
        "tag=InTransit",
        "keyword=RED%20(B",
        "keyword=b7",
        "origin=DEU",
        "shipment_tags=gift,other",
        "created_at_max=2100-01-01T00:00:00%2B00:00&tag=InTransit",
    ):
        assert await listed(api, query) == [NUMBER], query
    for query in ("tag=Pending", "order_id=7", "slug=ups"):
        assert await listed(api, query) == [OTHER["number"]], query
    for query in ("tag=Delivered", "created_at_min=2100-01-01T00:00:00Z", "return_to_sender=true"):
        assert await listed(api, query) == [], query
    assert await listed(api, "return_to_sender=false") == [OTHER["number"], NUMBER]
    data = await answer_of(await api.get(f"{AT}?fields=title,tag&slug=usps"))
    assert data["trackings"] == [{"id": first["id"], "title": "A red (box)", "tag": "InTransit"}]


async def test_a_list_that_cannot_be_meant_is_refused(api: Client) -> None:
    for query in (
        "limit=0",
        "limit=201",
        "limit=x",
        f"limit={'1' * 5_000}",
        "cursor=abc",
        "tag=intransit",
        "created_at_min=yesterday",
        "transit_time=3",
        "return_to_sender=maybe",
        "keyword=%00",
    ):
        assert (await refusal_of(await api.get(f"{AT}?{query}"), 400))["code"] == 4008, query


async def test_pages_follow_each_other_until_all_are_listed_once(
    api: Client, bucket: Bucket
) -> None:
    await create(api, tracking_number=NUMBER, slug="usps")
    made = bucket.shipments.find_one({}) or {}
    for index in range(6):  # three of one instant
        at = made["created_at"] - dt.timedelta(seconds=index // 3)
        name = {"_id": f"{index}", "parcel": f"usps:{index}", "number": f"{index}"}
        bucket.shipments.insert_one(made | name | {"created_at": at})

    seen: list[str] = []
    cursor, more = "", True
    while more:
        data = await answer_of(await api.get(f"{AT}?limit=2&cursor={cursor}"))
        page, seen = data["pagination"], seen + [each["id"] for each in data["trackings"]]
        cursor, more = page["next_cursor"], page["has_next_page"]
        assert page["total"] == 7
    assert cursor == ""
    assert len(seen) == len(set(seen)) == 7


async def test_another_account_sees_nothing(disk: Path, settings: dict[str, str]) -> None:
    keys = FixedKeys()
    main, shop, other = (
        {"as-api-key": keys.make(account, Scope.READ, Scope.INGEST)}
        for account in ("main", "shop", "other")
    )
    callers = Callers(keys, 1_000.0)
    async with serving_all(disk / "spool.sqlite", settings, callers=callers) as api:
        body = {"tracking_number": NUMBER, "slug": "usps"}
        made = await answer_of(await api.post(AT, json=body, headers=shop), 201)
        path = f"{AT}/{made['id']}"
        unknown = await (await api.get(f"{AT}/{'0' * 32}", headers=main)).read()

        for key in (main, other):
            for method, where in (
                ("GET", path),
                ("GET", f"{AT}/shop%2F{made['id']}"),
                ("PUT", path),
                ("DELETE", path),
                ("POST", f"{path}/retrack"),
            ):
                json = {} if method == "PUT" else None
                reply = await api.request(method, where, headers=key, json=json)
                assert (reply.status, await reply.read()) == (404, unknown), (method, where)
            data = await answer_of(await api.get(AT, headers=key))
            assert (data["trackings"], data["pagination"]["total"]) == ([], 0)
            # The same parcel may be a shipment of theirs, too.
            await answer_of(await api.post(AT, json=body, headers=key), 201)
        assert (await answer_of(await api.get(path, headers=shop)))["id"] == made["id"]


async def test_a_reader_changes_nothing_and_the_limit_is_told(
    disk: Path, settings: dict[str, str]
) -> None:
    keys = FixedKeys()
    reader = {"as-api-key": keys.make("main", Scope.READ)}
    callers = Callers(keys, 2.0, clock=lambda: 0.0)
    async with serving_all(disk / "spool.sqlite", settings, callers=callers) as api:
        refused = await api.post(AT, json={"tracking_number": NUMBER}, headers=reader)
        assert (await refusal_of(refused, 403))["code"] == 403
        for _ in range(4):
            await answer_of(await api.get(AT, headers=reader))
        limited = await api.get(AT, headers=reader)
        assert (await refusal_of(limited, 429))["type"] == "TooManyRequests"
        assert limited.headers["Retry-After"] == "1"


async def test_mongodb_away_is_told_in_the_envelope(
    disk: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE_MS", 100)
    away = settings | {"TRACKER_MONGODB__URI": f"mongodb://{NOWHERE}"}
    async with serving_all(disk / "spool.sqlite", away) as api:
        meta = await refusal_of(await api.get(AT), 503)

        assert (meta["code"], meta["type"]) == (503, "InternalError")
