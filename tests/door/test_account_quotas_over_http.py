"""Quotas of accounts at the doors: requests of a minute, parcels, and `/v1/quotas`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aftership_ground import Bucket
from door_ground import CATALOGUE, USPS, FixedKeys, payloads, post, refused, serving
from operations_ground import serving_all

from devstack.servers import Server
from service.config.load import load
from service.http.backend import parcel_room
from service.http.backend.keyring import Keyring
from service.http.backend.parcel_room import ParcelRoom
from service.http.callers import MINUTE_SECONDS, Callers
from service.operator import connections
from service.operator.keys import Scope
from service.operator.put import Sendable, job_of
from service.operator.quotas import QuotaUsedUp
from tracking.request import MAIN, Account

SHOP = Account("shop")


class Keyed(FixedKeys):
    """Keys of accounts, of which `shop` may have so many of these."""

    def __init__(self, **quotas: int) -> None:
        super().__init__()
        self.quotas = {"shop": quotas}

    def make(self, account: str, *scopes: Scope, **more: Any) -> str:
        made = super().make(account, *scopes, **more)
        self.keys = msgspec.structs.replace(self.keys, quotas=self.quotas)
        return made


async def test_an_account_has_so_many_requests_a_minute_over_all_its_keys(
    disk: Path, beanstalkd: Server
) -> None:
    keys, now = Keyed(requests_a_minute=3), [1_000.0]
    one, two, other = (keys.make(each, Scope.INGEST) for each in ("shop", "shop", "other"))
    callers = Callers(keys, 1_000.0, clock=lambda: now[0])
    async with serving(disk / "spool.sqlite", beanstalkd, callers=callers) as client:
        for key in (one, two, one):
            assert (await post(client, USPS, as_api_key=key)).status == 202

        response = await post(client, USPS, as_api_key=two)
        problem = await refused(response, 429)

        assert (problem["quota"], problem["allowed"]) == ("requests_a_minute", 3)
        assert "resets_at" in problem
        assert 1 <= int(response.headers["Retry-After"]) <= MINUTE_SECONDS
        assert (await post(client, USPS, as_api_key=other)).status == 202
        now[0] += MINUTE_SECONDS
        assert (await post(client, USPS, as_api_key=two)).status == 202
    assert len(payloads(beanstalkd)) == 5


def requests_of(*numbers: str, account: Account = SHOP) -> list[Sendable]:
    return [job_of({"slug": "usps", "number": each}, CATALOGUE, account) for each in numbers]


@pytest.fixture
async def ring(
    settings: dict[str, str], disk: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Keyring]:
    """The keyring of a door, where `shop` may follow three parcels."""
    config = load(None, settings, Path("/")).config
    monkeypatch.setattr(connections, "PATIENCE_MS", 300)
    with connections.collections_of(config) as stores:
        stores.accounts.insert_one({"_id": "shop", "parcels": 3, "calls_a_day": "many"})
    made = Keyring(config, disk / "keys.json")
    await made.look()
    yield made
    await made.close()


def follow(bucket: Bucket, *numbers: str, tag: str = "InTransit") -> None:
    bucket.tracking.insert_many(
        {"_id": f"usps:{number}@shop", "account": "shop", "tag": tag} for number in numbers
    )


async def test_quotas_travel_with_the_keys_and_stand_in_their_file(
    ring: Keyring, settings: dict[str, str], disk: Path
) -> None:
    away = load(None, settings | {"TRACKER_MONGODB__URI": "mongodb://127.0.0.1:1"}, Path("/"))
    another = Keyring(away.config, disk / "keys.json")

    assert ring.keys.quotas == another.keys.quotas == {"shop": {"parcels": 3}}
    await another.close()


async def test_a_further_parcel_than_an_account_may_follow_is_refused(
    ring: Keyring, bucket: Bucket
) -> None:
    room = ParcelRoom(ring)
    follow(bucket, "N001", "N002")
    follow(bucket, "OVER", tag="Delivered")

    await room.insist(requests_of("N001", "N003", "OVER"))
    with pytest.raises(QuotaUsedUp) as caught:
        await room.insist(requests_of("N004"))

    assert (caught.value.quota, caught.value.use[:2]) == ("parcels", (3, 3))
    await room.insist(requests_of("N001", "N002", "N003", "OVER"))
    await room.insist(requests_of("N004", account=MAIN))


async def test_of_several_that_are_too_many_none_is_taken(ring: Keyring, bucket: Bucket) -> None:
    room = ParcelRoom(ring)
    follow(bucket, "N001")

    with pytest.raises(QuotaUsedUp):
        await room.insist(requests_of("N001", "N002", "N003", "N004"))

    await room.insist(requests_of("N002", "N003"))


async def test_of_those_who_come_at_once_no_more_are_let_in_than_there_is_room_for(
    ring: Keyring,
) -> None:
    room = ParcelRoom(ring)
    asked = [room.insist(requests_of(f"N00{n}")) for n in range(6)]

    told = await asyncio.gather(*asked, return_exceptions=True)

    assert [each is None for each in told].count(True) == 3


async def test_room_is_there_again_for_one_that_was_delivered_or_never_stored(
    ring: Keyring, bucket: Bucket
) -> None:
    now = [0.0]
    room = ParcelRoom(ring, lambda: now[0])
    await room.insist(requests_of("N001", "N002", "N003"))
    follow(bucket, "N001", tag="Delivered")
    await room.insist(requests_of("N004"))

    now[0] += parcel_room.LET_IN_SECONDS
    await room.insist(requests_of("N005", "N006", "N007"))


async def test_while_mongodb_is_away_all_are_taken(
    ring: Keyring, settings: dict[str, str], disk: Path
) -> None:
    away = load(None, settings | {"TRACKER_MONGODB__URI": "mongodb://127.0.0.1:1"}, Path("/"))
    another = Keyring(away.config, disk / "keys.json")

    room = ParcelRoom(another)
    await room.insist(requests_of("N001", "N002", "N003", "N004"))
    await another.close()
    await room.insist(requests_of("N005"))  # which it asks nobody about
    assert ring.keys.quotas


async def test_a_door_names_the_quota_that_refuses_a_parcel(
    ring: Keyring, disk: Path, beanstalkd: Server, bucket: Bucket
) -> None:
    follow(bucket, "N001", "N002", "N003")
    keys = FixedKeys()
    key = keys.make("shop", Scope.INGEST)
    async with serving(
        disk / "spool.sqlite",
        beanstalkd,
        callers=Callers(keys, 1_000.0),
        insist=ParcelRoom(ring).insist,
    ) as client:
        problem = await refused(await post(client, USPS, as_api_key=key), 403)

        assert (problem["quota"], problem["allowed"], problem["used"]) == ("parcels", 3, 3)
        known = await post(client, USPS | {"number": "N001"}, as_api_key=key)
        assert known.status == 202


async def test_an_account_asks_for_its_quotas_and_what_is_used(
    disk: Path, settings: dict[str, str], bucket: Bucket
) -> None:
    keys = Keyed(requests_a_minute=60)
    key = keys.make("shop", Scope.READ)
    bucket.accounts.insert_one({"_id": "shop", "parcels": 3, "calls_a_day": 100})
    follow(bucket, "N001", "N002")
    async with serving_all(
        disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)
    ) as client:
        told = await (await client.get("/v1/quotas", headers={"as-api-key": key})).json()

    assert told["parcels"] == {"allowed": 3, "used": 2, "resets_at": None}
    assert (told["calls_a_day"]["allowed"], told["calls_a_day"]["used"]) == (100, 0)
    assert told["calls_a_day"]["resets_at"].endswith("T00:00:00Z")
    assert (told["requests_a_minute"]["allowed"], told["requests_a_minute"]["used"]) == (60, 1)
    assert told["requests_a_minute"]["resets_at"]


async def test_without_quotas_nothing_is_counted(disk: Path, settings: dict[str, str]) -> None:
    async with serving_all(disk / "spool.sqlite", settings) as client:
        told = await (await client.get("/v1/quotas")).json()

    none = {"allowed": None, "used": None, "resets_at": None}
    assert told == dict.fromkeys(("calls_a_day", "parcels", "requests_a_minute"), none)
