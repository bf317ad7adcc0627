"""AfterShip's trackings over the real application and stores, read as its SDKs read them."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from aftership_ground import AT, DOCUMENT, NUMBER, Bucket, answer_of, create, listed, refusal_of
from door_ground import CATALOGUE, NOWHERE, OTHER, Client, FixedKeys, payloads
from operations_ground import serving_all

from devstack.servers import Server
from service.http.backend.door import Door
from service.http.callers import Callers
from service.operator import connections
from service.operator.keys import Scope
from service.worker.results import shipments
from service.worker.results.shipments import Exists
from tracking.errors import SpoolDown


async def test_a_shipment_from_its_creation_to_its_deletion(
    whole: Client, bucket: Bucket, beanstalkd: Server
) -> None:
    made = await create(
        whole,
        tracking_number="9405 9036 9930 0184 1250 60",
        title="Order 7",
        customers=[{"name": "A. Buyer", "email": "a@example.com"}],
        custom_fields={"a.b$": "x"},
        destination_postal_code="8000",
    )
    path = f"{AT}/{made['id']}"

    [put] = payloads(beanstalkd)
    assert put["slug"] == made["slug"] == "usps"
    assert put["number"] == made["tracking_number"] == NUMBER
    assert put["tracking_postal_code"] == "8000"
    assert len(made["id"]) == 32
    assert (made["tag"], made["active"], made["checkpoints"]) == ("Pending", True, [])

    bucket.tracking.insert_one(DOCUMENT)
    found = await answer_of(await whole.get(path))
    assert (found["tag"], found["subtag_message"]) == ("InTransit", "Acceptance scan")
    assert found["checkpoints"][0]["checkpoint_time"] == "2026-05-04T10:00:01+02:00"
    assert found["custom_fields"] == {"a.b$": "x"}
    assert found["customers"][0]["email"] == "a@example.com"

    by_parcel = await answer_of(await whole.get(f"{AT}/usps/{NUMBER}"))
    assert by_parcel["id"] == made["id"]
    assert (await refusal_of(await whole.get(f"{AT}/ups/{NUMBER}"), 404))["code"] == 4004
    retracked = await whole.post(f"{AT}/usps/{NUMBER}/retrack")
    assert (await refusal_of(retracked, 400))["code"] == 4013

    again = await whole.post(AT, json={"tracking_number": NUMBER, "slug": "usps"})
    assert (await refusal_of(again, 400))["code"] == 4003
    assert (await again.json())["data"] == {"id": made["id"]}

    changed = await answer_of(await whole.put(path, json={"title": None, "note": "fragile"}))
    assert (changed["title"], changed["note"]) == (NUMBER, "fragile")
    assert payloads(beanstalkd) == []  # nothing of it concerns the courier
    await answer_of(await whole.put(path, json={"destination_postal_code": "8001"}))
    [put] = payloads(beanstalkd)
    assert (put["tracking_postal_code"], put["max_age"]) == ("8001", 0)

    assert (await answer_of(await whole.delete(path)))["id"] == made["id"]
    for gone in (await whole.get(path), await whole.delete(path), await whole.put(path, json={})):
        assert (await refusal_of(gone, 404))["code"] == 4004
    assert await listed(whole) == []
    kept = bucket.shipments.find_one({}) or {}
    assert (kept["deleted"], kept["words"]) == (True, {})
    assert (await create(whole, tracking_number=NUMBER, slug="usps"))["id"] != made["id"]


async def test_a_shipment_that_cannot_be_made_is_refused_with_aftership_s_code(
    api: Client, bucket: Bucket
) -> None:
    refused: list[tuple[dict[str, Any], int]] = [
        ({}, 4007),
        ({"tracking_number": "!!"}, 4005),
        ({"tracking_number": 5}, 4005),
        ({"tracking_number": NUMBER, "slug": "usp"}, 4010),
        ({"tracking_number": "ZZ"}, 4005),
        ({"tracking_number": "QQQQQQ"}, 4012),
        ({"tracking_number": "TBA123456789012"}, 4012),
        ({"tracking_number": NUMBER, "id": "shop/1"}, 4015),
        ({"tracking_number": NUMBER, "slug_group": "usps-group"}, 4008),
        ({"tracking_number": NUMBER, "customers": [{}] * 4}, 4008),
        ({"tracking_number": NUMBER, "custom_fields": {"a": 2**70}}, 4008),
        ({"tracking_number": NUMBER, "destination_postal_code": "8" * 300}, 4008),
    ]
    for members, code in refused:
        meta = await refusal_of(await api.post(AT, json=members), 400)
        assert meta["code"] == code, members
    assert bucket.shipments.count_documents({}) == 0


async def test_an_account_says_only_so_much_of_a_shipment(whole: Client, bucket: Bucket) -> None:
    long = {"note": "x" * 20_000}
    path = f"{AT}/{(await create(whole, tracking_number=NUMBER, slug='usps', **long))['id']}"

    refused = [
        await whole.put(path, json={"title": "x" * 20_000}),
        await whole.post(
            AT, json={"tracking_number": "9400100000000000000000", "title": "x" * 40_000}
        ),
        await whole.post(
            f"{path}/mark-as-completed", json={"reason": "LOST", "event_datetime": "2" * 101}
        ),
    ]

    for each in refused:
        assert (await refusal_of(each, 400))["code"] == 4008
    [kept] = bucket.shipments.find()
    assert (kept["words"], kept["completed"]) == (long, None)


async def test_a_field_that_the_courier_requires_is_named_as_aftership_does(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CATALOGUE, "required_fields", lambda _: ("tracking_postal_code",))

    response = await api.post(AT, json={"tracking_number": NUMBER, "slug": "usps"})

    meta = await refusal_of(response, 400)
    assert meta["code"] == 4011
    assert "destination_postal_code" in meta["message"]


async def test_a_shipment_whose_request_is_durable_nowhere_is_not_made(
    api: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise SpoolDown("the spool is full")

    monkeypatch.setattr(Door, "take", full)

    response = await api.post(AT, json={"tracking_number": NUMBER, "slug": "usps"})

    meta = await refusal_of(response, 503)
    assert (meta["code"], meta["type"]) == (503, "InternalError")
    assert response.headers["Retry-After"]
    assert bucket.shipments.count_documents({}) == 0


async def test_two_creations_at_once_make_one_shipment(whole: Client, bucket: Bucket) -> None:
    replies = await asyncio.gather(
        *(whole.post(AT, json={"tracking_number": NUMBER, "slug": "usps"}) for _ in range(8))
    )

    assert sorted(reply.status for reply in replies) == [201, *[400] * 7]
    assert {(await reply.json())["meta"]["code"] for reply in replies} == {201, 4003}
    assert bucket.shipments.count_documents({}) == 1


async def test_one_that_is_deleted_while_it_is_created_again_is_refused_and_no_defect(
    api: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object) -> None:
        raise Exists(same_id=False)

    monkeypatch.setattr(shipments, "add", taken)

    response = await api.post(AT, json={"tracking_number": NUMBER, "slug": "usps"})

    assert (await refusal_of(response, 400))["code"] == 4003
    assert bucket.shipments.count_documents({}) == 0


async def test_an_id_of_the_client_s_own_is_its_id_and_not_given_again(api: Client) -> None:
    await create(api, tracking_number=NUMBER, slug="usps", id="order_7")

    assert (await answer_of(await api.get(f"{AT}/order_7")))["tracking_number"] == NUMBER
    taken = {"tracking_number": OTHER["number"], "slug": "ups", "id": "order_7"}
    assert (await refusal_of(await api.post(AT, json=taken), 400))["code"] == 4015


async def test_a_shipment_is_durable_in_the_spool_while_no_beanstalkd_takes_its_request(
    api: Client,
) -> None:
    await create(api, tracking_number=NUMBER, slug="usps")

    assert (await (await api.get("/readyz")).json())["spooled"] == 1


async def test_an_end_that_the_account_tells_shows_until_it_is_retracked(
    whole: Client, bucket: Bucket, beanstalkd: Server
) -> None:
    made = await create(whole, tracking_number=NUMBER, slug="usps")
    path = f"{AT}/{made['id']}"
    assert (await refusal_of(await whole.post(f"{path}/retrack"), 400))["code"] == 4013

    ended = await whole.post(f"{path}/mark-as-completed", json={"reason": "LOST"})
    told = await answer_of(ended)
    assert (told["tag"], told["subtag"], told["active"]) == ("Exception", "Exception_013", False)
    assert told["checkpoints"][-1]["source"] == "user"
    assert await listed(whole, "tag=Exception") == [NUMBER]
    assert bucket.tracking.count_documents({}) == 0  # only the shipment is marked

    payloads(beanstalkd)
    for _ in range(3):
        assert (await answer_of(await whole.post(f"{path}/retrack")))["active"] is True
        [put] = payloads(beanstalkd)
        assert (put["number"], put["max_age"]) == (NUMBER, 0)
        await answer_of(await whole.post(f"{path}/mark-as-completed", json={"reason": "LOST"}))
    assert (await refusal_of(await whole.post(f"{path}/retrack"), 400))["code"] == 4016
    for body, code in (({}, 4009), ({"reason": "EATEN"}, 4008)):
        wrong = await whole.post(f"{path}/mark-as-completed", json=body)
        assert (await refusal_of(wrong, 400))["code"] == code


async def statuses(whole: Client, path: str, times: int) -> list[int]:
    replies = await asyncio.gather(*(whole.post(path) for _ in range(times)))
    return sorted(each.status for each in replies)


async def test_fourteen_retracks_at_once_are_three_at_most(
    whole: Client, bucket: Bucket, beanstalkd: Server
) -> None:
    bucket.tracking.insert_one(DOCUMENT | {"active": False, "tag": "Delivered"})
    made = await create(whole, tracking_number=NUMBER, slug="usps")
    payloads(beanstalkd)

    assert await statuses(whole, f"{AT}/{made['id']}/retrack", 14) == [200] * 3 + [400] * 11

    assert len(payloads(beanstalkd)) == 3
    assert [each["retracks"] for each in bucket.shipments.find()] == [3]


async def test_of_two_retracks_of_an_end_that_the_account_told_one_is_made(
    whole: Client, beanstalkd: Server
) -> None:
    path = f"{AT}/{(await create(whole, tracking_number=NUMBER, slug='usps'))['id']}"
    await answer_of(await whole.post(f"{path}/mark-as-completed", json={"reason": "LOST"}))
    payloads(beanstalkd)

    assert await statuses(whole, f"{path}/retrack", 5) == [200] + [400] * 4

    assert len(payloads(beanstalkd)) == 1


async def test_a_retrack_that_is_durable_nowhere_does_not_count(
    whole: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{AT}/{(await create(whole, tracking_number=NUMBER, slug='usps'))['id']}"
    await answer_of(await whole.post(f"{path}/mark-as-completed", json={"reason": "LOST"}))
    before = bucket.shipments.find_one()

    async def refuse(*_: object) -> None:
        raise SpoolDown("it is full")

    with monkeypatch.context() as full:
        full.setattr(Door, "take", refuse)
        await refusal_of(await whole.post(f"{path}/retrack"), 503)

    after = bucket.shipments.find_one()
    assert before
    assert after
    assert after | {"updated_at": None} == before | {"updated_at": None}
    assert (await answer_of(await whole.post(f"{path}/retrack")))["active"] is True


async def test_changes_at_once_are_all_made_and_asked_for_together(
    whole: Client, bucket: Bucket, beanstalkd: Server
) -> None:
    path = f"{AT}/{(await create(whole, tracking_number=NUMBER, slug='usps'))['id']}"
    payloads(beanstalkd)
    said: list[dict[str, str]] = [
        {"destination_postal_code": "8000"},
        {"tracking_key": "k"},
        {"title": "x"},
    ]

    await asyncio.gather(*(whole.put(path, json=each) for each in said))

    [shipment] = bucket.shipments.find()
    assert [shipment["words"].get(name) for each in said for name in each] == ["8000", "k", "x"]
    asked = [
        (each.get("tracking_postal_code"), each.get("tracking_key"))
        for each in payloads(beanstalkd)
    ]
    assert ("8000", "k") in asked


async def test_the_courier_of_a_shipment_can_be_corrected(
    whole: Client, beanstalkd: Server
) -> None:
    made = await create(whole, tracking_number=NUMBER, slug="fedex")
    await create(whole, tracking_number=NUMBER, slug="ups")
    payloads(beanstalkd)
    path = f"{AT}/{made['id']}"

    assert (await answer_of(await whole.put(path, json={"slug": "usps"})))["slug"] == "usps"

    assert [each["slug"] for each in payloads(beanstalkd)] == ["usps"]
    assert (await refusal_of(await whole.put(path, json={"slug": "ups"}), 400))["code"] == 4003


async def test_an_older_version_names_things_as_it_did(api: Client, bucket: Bucket) -> None:
    bucket.tracking.insert_one(DOCUMENT)
    old, new = "/tracking/2025-07/trackings", AT
    body = {"tracking_number": NUMBER, "order_promised_delivery_date": "2026-05-09"}
    made = await answer_of(await api.post(old, json=body | {"slug": "usps"}), 201)

    assert made["order_promised_delivery_date"] == "2026-05-09"
    assert made["checkpoints"][0]["zip"] == "8000"
    told = await answer_of(await api.get(f"{new}/{made['id']}"))
    assert told["order_promised_delivery_date"]["promised_delivery_date"] == "2026-05-09"
    assert told["checkpoints"][0]["postal_code"] == "8000"


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
