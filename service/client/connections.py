"""Connections to our servers for the length of one verb."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern
from redis.asyncio import Redis

from limits.admin.view import View
from limits.connect import open_redis
from service.config.handover import redis_address, rules_for
from service.config.schema import Config
from service.results.connection import Document, open_client
from service.results.failure import mongodb_down
from service.results.names import (
    ACCOUNTS,
    AUDIT,
    FORGOTTEN,
    KEYS,
    LIMITS,
    LINKS,
    OPERATIONS,
    REFUSED,
    SHIPMENTS,
    STATISTICS,
    UNKNOWN_CODES,
)
from service.results.rulebook import Changes, RuleBook, read_changes

PATIENCE_MS = 3_000
"""A person waits, and so does a probe: sooner than the worker, who can wait."""


@asynccontextmanager
async def redis_of(config: Config) -> AsyncIterator[Redis]:
    """Open the Redis; connects at the first command."""
    redis = open_redis(redis_address(config), patient=False)
    try:
        yield redis
    finally:
        await redis.aclose()


def book_of(config: Config) -> RuleBook:
    """Say by which rules couriers are called; asks MongoDB once something was set over the file."""

    def read() -> Changes:
        with collections_of(config) as stores:
            return read_changes(stores.limits)

    # It is asked several times, and must say the same then.
    plain_of = functools.cache(functools.partial(rules_for, config))
    return RuleBook(plain_of, functools.partial(asyncio.to_thread, read))


@asynccontextmanager
async def view_of(config: Config) -> AsyncIterator[View]:
    """Open what reads Redis for people. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        book = book_of(config)
        yield View(redis, book.rules_of, book)


@dataclass(frozen=True, slots=True)
class Collections:
    """The collections that people ask about; `client` is for questions about the server."""

    client: MongoClient[Document]
    tracking: Collection[Document]
    past: Collection[Document]
    dead: Collection[Document]
    unreadable: Collection[Document]
    unknown_codes: Collection[Document]
    forgotten: Collection[Document]
    operations: Collection[Document]
    refused: Collection[Document]
    accounts: Collection[Document]
    keys: Collection[Document]
    audit: Collection[Document]
    shipments: Collection[Document]
    links: Collection[Document]
    statistics: Collection[Document]
    limits: Collection[Document]


@contextmanager
def collections_of(config: Config) -> Iterator[Collections]:
    """Open the MongoDB; what goes wrong with it inside the `with` block raises ResultsDown."""
    mongodb = config.mongodb
    try:
        with open_client(mongodb.uri, timeoutMS=PATIENCE_MS, tz_aware=True) as client:
            database: Database[Document] = client.get_database(
                mongodb.database, write_concern=WriteConcern("majority")
            )
            yield Collections(
                client,
                tracking=database[mongodb.collection],
                past=database[mongodb.past_collection],
                dead=database[mongodb.dead_collection],
                unreadable=database[mongodb.unreadable_collection],
                unknown_codes=database[UNKNOWN_CODES],
                forgotten=database[FORGOTTEN],
                operations=database[OPERATIONS],
                refused=database[REFUSED],
                accounts=database[ACCOUNTS],
                keys=database[KEYS],
                audit=database[AUDIT],
                shipments=database[SHIPMENTS],
                links=database[LINKS],
                statistics=database[STATISTICS],
                limits=database[LIMITS],
            )
    except PyMongoError as error:
        raise mongodb_down(error) from error
