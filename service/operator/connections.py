"""Connections to our servers for the length of one verb."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from pymongo.errors import PyMongoError
from redis.asyncio import Redis

from limits.admin.view import View
from limits.connect import open_redis
from limits.rules import Changes, RuleBook
from service.config.domain import redis_address, rules_for
from service.config.schema import Config
from service.worker.results.database import Collections, in_thread, names_of, open_client
from service.worker.results.failure import mongodb_down
from service.worker.results.limit_changes import read_rules

__all__ = ["Collections", "in_thread"]

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
            return read_rules(stores.limits, stores.accounts)

    # It is asked several times, and must say the same then.
    plain_of = functools.cache(functools.partial(rules_for, config))
    return RuleBook(plain_of, functools.partial(asyncio.to_thread, read))


@asynccontextmanager
async def view_of(config: Config) -> AsyncIterator[View]:
    """Open what reads Redis for people. Its methods raise LimitsDown."""
    async with redis_of(config) as redis:
        book = book_of(config)
        yield View(redis, book.rules_of, book)


@contextmanager
def collections_of(config: Config) -> Iterator[Collections]:
    """Open the MongoDB; what goes wrong with it inside the `with` block raises ResultsDown."""
    names = names_of(config)
    try:
        with open_client(names.uri, timeoutMS=PATIENCE_MS) as client:
            yield Collections(client, names)
    except PyMongoError as error:
        raise mongodb_down(error) from error
