"""MongoDB for users, with an account beside `main`, and hashes that cost little."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import argon2
import pytest
from msgspec import structs

from service.config.schema import Config, Mongodb
from service.operator import passwords
from service.operator.connections import Collections, collections_of

CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
NOBODYS = CHEAP.hash("nobody's")


@pytest.fixture
def config(mongo_uri: str, database: str) -> Config:
    return structs.replace(Config(), mongodb=Mongodb(uri=mongo_uri, database=database))


@pytest.fixture
def stores(config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collections]:
    monkeypatch.setattr(passwords, "PasswordHasher", lambda: CHEAP)
    monkeypatch.setattr(passwords, "NOBODYS", NOBODYS)
    with collections_of(config) as opened:
        opened.accounts.insert_one({"_id": "acme", "made_at": dt.datetime.now(dt.UTC)})
        yield opened
