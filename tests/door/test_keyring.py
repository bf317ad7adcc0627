"""The keys that a door knows: as MongoDB has them, or as the file beside it had them last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.client import accounts, connections
from service.client import keyring as keyring_module
from service.client.accounts import (
    NotDone,
    add_account,
    add_key,
    keys,
    remove_account,
    revoke_key,
    rotate_key,
)
from service.client.connections import collections_of
from service.client.keyring import Keyring, KeysDown
from service.client.keys import PREFIX_CHARACTERS, Scope, make_key
from service.config.load import load
from service.config.schema import Config
from service.observe.background import Background
from service.observe.events import Event
from tracking.account import MAIN, Account
from tracking.errors import ResultsDown


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
        return add_key(stores, MAIN, [Scope.INGEST]).text


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
            revoke_key(stores, key[:PREFIX_CHARACTERS])
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
            revoke_key(stores, key[:PREFIX_CHARACTERS])
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
            add_key(stores, shop, [Scope.READ])

        assert all(each.ends_at is not None for each in keys(stores, shop))


def test_a_key_that_is_revoked_while_it_is_rotated_has_no_successor(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collections_of(ground.config) as stores:
        prefix = add_key(stores, MAIN, [Scope.READ]).text[:PREFIX_CHARACTERS]
        while_it_is_made(monkeypatch, lambda: revoke_key(stores, prefix))

        with pytest.raises(NotDone, match="has ended"):
            rotate_key(stores, prefix, 60.0)

        assert all(each.ends_at is not None for each in keys(stores, MAIN))
