"""Keys: how a door knows them, what they are good for, and how often they may be used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
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
from service.config.load import load
from service.config.schema import Config
from service.http.backend import keyring as keyring_module
from service.http.backend.keyring import Keyring, KeysDown
from service.http.callers import Callers
from service.observe.background import Background
from service.observe.events import Event
from service.operator import accounts, connections
from service.operator.accounts import add_account, add_key, remove_account, revoke_key, rotate_key
from service.operator.accounts import (
    keys as kept_keys,
)
from service.operator.audit import Operator, Via
from service.operator.connections import collections_of
from service.operator.keys import PREFIX_CHARACTERS, Keys, Scope, make_key
from service.worker.tubes.envelope import decode_request
from tracking.errors import NotDone, ResultsDown
from tracking.request import MAIN, Account


@dataclass(frozen=True)
class Ground:
    config: Config
    away: Config
    file: Path


def configured(uri: str, database: str) -> Config:
    variables = {"TRACKER_MONGODB__URI": uri, "TRACKER_MONGODB__DATABASE": database}
    return load(None, variables, Path("/")).config


@pytest.fixture
def ground(mongo_uri: str, database: str, disk: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr(connections, "PATIENCE_MS", 300)
    away = configured("mongodb://127.0.0.1:1", database)
    return Ground(configured(mongo_uri, database), away, disk / "keys.json")


@asynccontextmanager
async def keyring(config: Config, file: Path) -> AsyncIterator[Keyring]:
    made = Keyring(config, file)
    try:
        yield made
    finally:
        await made.close()


def made_in(ground: Ground) -> str:
    with collections_of(ground.config) as stores:
        return add_key(stores, Operator(), MAIN, [Scope.INGEST]).text


async def test_a_key_is_known_after_the_next_look_and_a_revoked_one_is_not(ground: Ground) -> None:
    async with keyring(ground.config, ground.file) as ring:
        await ring.look()
        assert not ring.keys.known
        key = made_in(ground)
        await ring.look()
        found = ring.find(key)
        assert found
        assert (found.account, found.scopes) == (MAIN, (Scope.INGEST,))

        with collections_of(ground.config) as stores:
            revoke_key(stores, Operator(), key[:PREFIX_CHARACTERS])
        await ring.look()

        assert ring.find(key) is None
        assert ring.keys.known


async def test_while_mongodb_is_away_the_keys_of_the_file_count(ground: Ground) -> None:
    key = made_in(ground)
    async with keyring(ground.config, ground.file) as ring:
        await ring.look()

    async with keyring(ground.away, ground.file) as another:
        assert another.find(key)
        with pytest.raises(ResultsDown):
            await another.look()
        assert another.find(key)


async def test_the_file_is_its_owners_and_holds_no_key(ground: Ground) -> None:
    key = made_in(ground)
    async with keyring(ground.config, ground.file) as ring:
        await ring.look()

    assert ground.file.stat().st_mode & 0o777 == 0o600
    assert key.encode() not in ground.file.read_bytes()
    assert [each.name for each in ground.file.parent.iterdir()] == [ground.file.name]


async def test_a_file_that_cannot_be_written_keeps_no_revoked_key_alive(ground: Ground) -> None:
    key = made_in(ground)
    async with keyring(ground.config, ground.file.parent / "nowhere" / "keys.json") as ring:
        with pytest.raises(KeysDown, match=r"ingest\.keys"):
            await ring.look()
        assert ring.find(key)
        with collections_of(ground.config) as stores:
            revoke_key(stores, Operator(), key[:PREFIX_CHARACTERS])
        with pytest.raises(KeysDown):
            await ring.look()
        assert ring.find(key) is None


@pytest.mark.parametrize("text", [b"", b"{", b'{"known": [1]}', b"\xff"])
async def test_a_damaged_file_is_no_file(ground: Ground, text: bytes) -> None:
    ground.file.write_bytes(text)

    async with keyring(ground.config, ground.file) as ring:
        assert not ring.keys.known


async def test_a_document_that_somebody_else_wrote_is_no_key(ground: Ground) -> None:
    key = made_in(ground)
    with collections_of(ground.config) as stores:
        bad: list[dict[str, Any]] = [{"_id": "x"}, {"_id": "y", "scopes": 1, "ends_at": "soon"}]
        stores.keys.insert_many(bad)

    async with keyring(ground.config, ground.file) as ring:
        await ring.look()

        assert list(ring.keys.known) == [key[:PREFIX_CHARACTERS]]


async def test_a_door_looks_again_and_again_and_tells_once_that_it_cannot(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Event] = []
    looks: list[Exception | None] = [None, ResultsDown("away"), ResultsDown("away"), None]
    over = asyncio.Event()

    async def look(_: Keyring) -> None:
        if not looks:
            over.set()
        elif error := looks.pop(0):
            raise error

    monkeypatch.setattr(Keyring, "look", look)
    monkeypatch.setattr(keyring_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(keyring_module, "emit", lambda event, **_: told.append(event))
    async with (
        keyring(ground.config, ground.file) as ring,
        Background().beside("keys", ring.keep_fresh),
        asyncio.timeout(5),
    ):
        await over.wait()

    assert told == [Event.KEYS_STALE, Event.KEYS_FRESH]


def while_it_is_made(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Have something happen after all was looked at, and before the key is there."""

    def made() -> str:
        monkeypatch.undo()
        happens()
        return make_key()

    monkeypatch.setattr(accounts, "make_key", made)


def test_a_key_that_is_made_while_its_account_is_removed_opens_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Account("shop")
    with collections_of(ground.config) as stores:
        add_account(stores, shop)
        while_it_is_made(monkeypatch, lambda: remove_account(stores, shop))

        with pytest.raises(NotDone, match="no account shop"):
            add_key(stores, Operator(), shop, [Scope.READ])

        assert all(each.ends_at is not None for each in kept_keys(stores, shop))


def test_a_key_that_is_revoked_while_it_is_rotated_has_no_successor(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collections_of(ground.config) as stores:
        prefix = add_key(stores, Operator(), MAIN, [Scope.READ]).text[:PREFIX_CHARACTERS]
        while_it_is_made(monkeypatch, lambda: revoke_key(stores, Operator(), prefix))

        with pytest.raises(NotDone, match="has ended"):
            rotate_key(stores, Operator(), prefix, 60.0)

        assert all(each.ends_at is not None for each in kept_keys(stores, MAIN))


def test_an_owner_ends_and_rotates_the_own_account_s_keys_alone_and_is_recorded(
    ground: Ground,
) -> None:
    owner = Operator(account=Account("shop"), via=Via.WEB, user="owner@shop.example")
    with collections_of(ground.config) as stores:
        add_account(stores, Account("shop"))
        theirs = add_key(stores, Operator(), MAIN, [Scope.READ]).text[:PREFIX_CHARACTERS]
        own = add_key(stores, owner, owner.account, [Scope.READ]).text[:PREFIX_CHARACTERS]

        with pytest.raises(NotDone, match="there is no key"):
            revoke_key(stores, owner, theirs)
        with pytest.raises(NotDone, match="there is no key"):
            rotate_key(stores, owner, theirs, 60.0)
        revoke_key(stores, owner, own)

        assert all(each.ends_at is None for each in kept_keys(stores, MAIN))
        acts = stores.audit.find({"user": owner.user}).sort("_id")
        recorded = ["key add", "key revoke", "key rotate", "key revoke"]
        assert [each["act"] for each in acts] == recorded


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
    ended = keys.make("main", Scope.INGEST, ends_at=1_000_000_000.0)
    async with serving(spool, NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        problem = await refused(await post(client, USPS, as_api_key=ended), 401)
        assert f"{ended[:PREFIX_CHARACTERS]} ended at 2001-09-09T01:46:40Z" in problem["detail"]
        unknown = await refused(await post(client, USPS, as_api_key=ended[:-1]), 401)
        assert "ended" not in unknown["detail"]
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


async def test_a_key_of_a_suspended_account_is_told_why_it_takes_nothing(
    keys: FixedKeys, spool: Path
) -> None:
    key, other = keys.make("shop", Scope.INGEST), keys.make("main", Scope.INGEST)
    keys.keys = msgspec.structs.replace(keys.keys, suspended={Account("shop"): "unpaid"})
    async with serving(spool, NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        problem = await refused(await post(client, USPS, as_api_key=key), 403)

        assert "shop is suspended: unpaid" in problem["detail"]
        assert (await post(client, USPS, as_api_key=other)).status == 202


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


async def test_a_key_that_lasts_so_long_hands_that_and_its_rate_on_to_its_successor(
    ground: Ground,
) -> None:
    terms = accounts.Terms(lasts_seconds=90 * 86_400.0, per_second=20.0)
    with collections_of(ground.config) as stores:
        made = add_key(stores, Operator(), MAIN, [Scope.READ], terms).text
        rotate_key(stores, Operator(), made[:PREFIX_CHARACTERS], 60.0)
        old, new = kept_keys(stores, MAIN)
        with pytest.raises(NotDone, match="no number of requests"):
            add_key(stores, Operator(), MAIN, [Scope.READ], accounts.Terms(per_second=0.0))

    assert (old.per_second, new.per_second) == (20.0, 20.0)
    assert old.ends_at
    assert new.ends_at
    assert (new.ends_at - new.made_at).days == 90
    assert old.ends_at < new.ends_at
    async with keyring(ground.config, ground.file) as ring:
        await ring.look()
    async with keyring(ground.away, ground.file) as another:
        found = another.find(made)
        assert found
        assert found.per_second == 20.0
        assert found.ends_at == old.ends_at.timestamp()


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
