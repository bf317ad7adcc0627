"""MongoDB for users, with an account beside `main`, and hashes that cost little."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator

import argon2
import pytest
from msgspec import structs

from devstack.stack import Stack
from service.config.schema import Config, Mongodb
from service.operator import passwords
from service.operator.connections import Collections, collections_of

CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
NOBODYS = CHEAP.hash("nobody's")
USED = ("users", "sessions", "invitations", "login_attempts", "mails", "audit", "accounts")


@pytest.fixture(scope="module")
def config(stack: Stack) -> Config:
    """Of a database for the tests of a file: a new one for each would take most of their time."""
    mongodb = Mongodb(uri=stack.mongodb.url, database=f"test_{uuid.uuid4().hex[:12]}")
    return structs.replace(Config(), mongodb=mongodb)


@pytest.fixture(scope="module")
def opened(config: Config) -> Iterator[Collections]:
    with collections_of(config) as opened:
        yield opened
        opened.client.drop_database(config.mongodb.database)


@pytest.fixture
def stores(opened: Collections, monkeypatch: pytest.MonkeyPatch) -> Collections:
    """All empty, but for the account `acme`."""
    monkeypatch.setattr(passwords, "PasswordHasher", lambda: CHEAP)
    monkeypatch.setattr(passwords, "NOBODYS", NOBODYS)
    for each in USED:
        opened.named(each).delete_many({})
    opened.accounts.insert_one({"_id": "acme", "made_at": dt.datetime.now(dt.UTC)})
    return opened
