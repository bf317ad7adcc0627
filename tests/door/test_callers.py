"""Who may ask a door: keys, what they are good for, how often, and whose requests they bring."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from door_ground import (
    CATALOGUE,
    NOWHERE,
    OTHER,
    USPS,
    FixedKeys,
    jobs_in,
    payloads,
    post,
    refused,
    serving,
)

from devstack.servers import Server
from service.api.callers import BURST_SECONDS, Allowance, Callers
from service.client.keys import Keys, Scope, make_key
from service.tubes.envelope import decode_request


@pytest.fixture
def keys() -> FixedKeys:
    return FixedKeys()


@pytest.fixture
def spool(disk: Path) -> Path:
    return disk / "spool.sqlite"


async def test_with_a_key_every_request_needs_one(
    keys: FixedKeys, spool: Path, beanstalkd: Server
) -> None:
    async with serving(spool, beanstalkd, callers=Callers(keys, 1_000.0)) as client:
        assert (await post(client, USPS)).status == 202
        key = keys.make("main", Scope.INGEST)

        response = await post(client, USPS)
        await refused(response, 401)
        assert response.headers["WWW-Authenticate"] == "Bearer"
        for wrong in (key[:-1], key + "0", make_key(), key[:15], "é"):
            await refused(await post(client, USPS, as_api_key=wrong), 401)
        assert len(jobs_in(beanstalkd)) == 1

        assert (await post(client, USPS, as_api_key=key)).status == 202
        assert (await post(client, USPS, Authorization=f"Bearer {key}")).status == 202
        await refused(await post(client, USPS, Authorization=f"Basic {key}"), 401)


async def test_a_door_to_which_a_key_once_belonged_stays_closed_when_the_last_one_ends(
    keys: FixedKeys, spool: Path
) -> None:
    ended = keys.make("main", Scope.INGEST, ends_at=time.time() - 1)
    async with serving(spool, NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        await refused(await post(client, USPS, as_api_key=ended), 401)
        await refused(await post(client, USPS), 401)


async def test_a_key_ends_at_its_time_while_nobody_refreshes_anything(keys: FixedKeys) -> None:
    key = keys.make("main", Scope.INGEST, ends_at=100.0)

    assert keys.keys.find(key, 99.9)
    assert keys.keys.find(key, 100.0) is None


async def test_a_key_without_the_scope_takes_nothing(keys: FixedKeys, spool: Path) -> None:
    reader = keys.make("main", Scope.READ, Scope.ADMIN)
    async with serving(spool, NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        problem = await refused(await post(client, USPS, as_api_key=reader), 403)

        assert "ingest" in problem["detail"]
        assert reader not in str(problem)


async def test_how_the_service_does_is_told_to_those_who_have_a_key(
    keys: FixedKeys, spool: Path
) -> None:
    key = keys.make("main", Scope.READ)
    async with serving(spool, NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        nobody = await (await client.get("/readyz")).json()
        somebody = await (await client.get("/readyz", headers={"as-api-key": key})).json()

        assert nobody == {"ready": True}
        assert NOWHERE in somebody["tubes"]
        assert (await client.get("/livez")).status == 200


async def test_a_key_that_is_used_too_often_is_told_when_to_come_again(
    keys: FixedKeys, spool: Path
) -> None:
    greedy, other = keys.make("main", Scope.INGEST), keys.make("main", Scope.INGEST)
    now = 0.0
    callers = Callers(keys, 0.5, clock=lambda: now)
    async with serving(spool, NOWHERE, callers=callers) as client:
        assert (await post(client, USPS, as_api_key=greedy)).status == 202
        response = await post(client, USPS, as_api_key=greedy)
        await refused(response, 429)
        assert response.headers["Retry-After"] == "2"
        assert (await post(client, USPS, as_api_key=other)).status == 202

        now = 2.0
        assert (await post(client, USPS, as_api_key=greedy)).status == 202


def test_a_allowance_fills_evenly_and_keeps_what_two_seconds_bring() -> None:
    allowance = Allowance(10.0, 0.0)

    assert [allowance.wait(0.0) for _ in range(int(10 * BURST_SECONDS) + 1)][-2:] == [0.0, 0.1]
    assert allowance.wait(0.1) == 0.0
    assert sum(allowance.wait(1_000.0) == 0.0 for _ in range(100)) == 10 * BURST_SECONDS


async def test_an_accounts_ids_are_its_own(
    keys: FixedKeys, spool: Path, beanstalkd: Server
) -> None:
    main, shop = keys.make("main", Scope.INGEST), keys.make("shop", Scope.INGEST)
    async with serving(spool, beanstalkd, callers=Callers(keys, 1_000.0)) as client:
        for key in (main, shop):
            said = await (await post(client, USPS | {"id": "order-7"}, as_api_key=key)).json()
            assert said["id"] == "order-7"
        # The same id of another account is another operation, so it may be for another parcel.
        other = keys.make("other", Scope.INGEST)
        assert (await post(client, OTHER | {"id": "order-7"}, as_api_key=other)).status == 202
        problem = await refused(await post(client, OTHER | {"id": "order-7"}, as_api_key=shop), 409)
        assert "shop" not in problem["detail"]

    bodies = jobs_in(beanstalkd)
    assert [decode_request(body, CATALOGUE.resolve).id for body in bodies] == [
        "order-7",
        "shop/order-7",
        "other/order-7",
    ]


async def test_nobody_names_the_account_but_the_key(
    keys: FixedKeys, spool: Path, beanstalkd: Server
) -> None:
    shop = keys.make("shop", Scope.INGEST)
    async with serving(spool, beanstalkd, callers=Callers(keys, 1_000.0)) as client:
        await post(client, USPS | {"account": "main"}, as_api_key=shop)
        await refused(await post(client, USPS | {"id": "main/1"}, as_api_key=shop), 422)

    assert [each["account"] for each in payloads(beanstalkd)] == ["shop"]


async def test_keys_are_compared_by_what_is_kept_of_them(keys: FixedKeys) -> None:
    made = keys.make("main", Scope.INGEST)

    assert made not in str(keys.keys)
    assert len({make_key() for _ in range(100)}) == 100
    assert Keys().find(made, 0.0) is None
    await asyncio.sleep(0)
