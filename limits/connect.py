"""The connection to Redis: one standalone server, or the master that Sentinels name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError

from limits.failure import redis_down

CONNECTIONS = 4
"""Scripts share one connection (see pipeline.py); the others serve reads and probes."""

TIMEOUT_SECONDS = 5.0
RETRIES = 3
"""Redis-py sends a command again when its reply was lost: every script is idempotent."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is: `url`, or the addresses of Sentinels and the name of their service.

    With Sentinels, `url` still gives scheme, user, password and database.
    """

    url: str = "redis://127.0.0.1:6379/0"
    sentinels: Sequence[tuple[str, int]] = ()
    service: str = "mymaster"


def open_redis(address: RedisAddress) -> Redis:
    """Make a client; connects at the first command. Replies are text."""
    retry = Retry(ExponentialWithJitterBackoff(base=0.05, cap=1.0), RETRIES)
    if address.sentinels:
        given = Redis.from_url(address.url).connection_pool.connection_kwargs
        login = {name: given[name] for name in ("username", "password", "db") if name in given}
        sentinel = Sentinel(  # type: ignore[no-untyped-call] # redis-py leaves it untyped
            list(address.sentinels), socket_timeout=TIMEOUT_SECONDS
        )
        master: Redis = sentinel.master_for(
            address.service,
            decode_responses=True,
            socket_timeout=TIMEOUT_SECONDS,
            retry=retry,
            ssl=address.url.startswith("rediss:"),
            **login,
        )
        return _packed(master)
    pool = BlockingConnectionPool.from_url(
        address.url,
        max_connections=CONNECTIONS,
        timeout=TIMEOUT_SECONDS,
        decode_responses=True,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=retry,
    )
    return _packed(Redis.from_pool(pool))


class _Packed(AbstractConnection):
    """Writes scripts' calls in C, as redis-py's synchronous connections do."""

    def pack_command(self, *args: Any) -> list[bytes]:
        if args[0] != "EVALSHA":
            return super().pack_command(*args)
        return [hiredis.pack_command(args)]


def _packed(redis: Redis) -> Redis:
    """Let the connections that `redis` will make write commands in C, of whatever kind they are."""
    pool: ConnectionPool = redis.connection_pool
    kind = pool.connection_class
    pool.connection_class = type(f"Packed{kind.__name__}", (_Packed, kind), {})
    return redis


async def answers(redis: Redis) -> bool:
    """Whether Redis answers now."""
    try:
        return bool(await redis.ping())
    except (RedisError, OSError):
        return False


async def shared_secret(redis: Redis, key: str, candidate: str) -> str:
    """The secret that all workers of this Redis share; the first one to ask sets it.

    Raises LimitsDown.
    """
    try:
        await redis.set(key, candidate, nx=True)
        return str(await redis.get(key))
    except (RedisError, OSError) as error:
        raise redis_down(error) from error
