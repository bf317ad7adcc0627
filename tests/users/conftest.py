"""MongoDB for users, with an account beside `main`, and hashes that cost little."""

from __future__ import annotations

from collections.abc import Iterator

import argon2
import pytest
from msgspec import structs

from service.config.schema import Config, Mongodb
from service.operator import passwords
from service.operator.accounts import add_account
from service.operator.connections import Collections, collections_of
from service.worker.results.database import indexes_for, make_indexes, names_of
from tracking.request import Account

CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture
def config(mongo_uri: str, database: str) -> Config:
    return structs.replace(Config(), mongodb=Mongodb(uri=mongo_uri, database=database))


@pytest.fixture
def stores(config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collections]:
    monkeypatch.setattr(passwords, "PasswordHasher", lambda: CHEAP)
    with collections_of(config) as opened:
        for attribute in ("users", "sessions", "invitations", "login_attempts"):
            make_indexes(opened.named(attribute), indexes_for(names_of(config))[attribute])
        add_account(opened, Account("acme"))
        yield opened
