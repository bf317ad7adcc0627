"""The connection to Redis: one standalone server, or the master that Sentinels name."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import hiredis
import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as NoReply

from limits.failure import redis_asked
from limits.server import RedisAddress

CONNECTIONS = 4
"""Scripts share one connection (see pipeline.py); the others serve reads and probes."""

TIMEOUT_SECONDS = 5.0
RETRIES = 3
"""Redis-py sends a command again when its reply was lost: every script is idempotent."""

_DRIVER = DriverInfo(lib_version=redis.__version__)
"""What Redis lists of a client. Without it redis-py looks its version up on the disk each time that
it connects: as much CPU as all else of a start that concerns Redis."""

WATCHED_TIMEOUT_SECONDS, SENTINEL_TIMEOUT_SECONDS = 3.0, 1.0
"""Shorter with Sentinels: five seconds after a promotion the new primary must be asked, although a
frozen primary and a frozen Sentinel were waited for before."""


def open_redis(address: RedisAddress, *, patient: bool = True) -> Redis:
    """Make a client; connects at the first command. Replies are text.

    `patient`: a command without an answer in time is sent again, up to `RETRIES` times.
    """
    seconds = WATCHED_TIMEOUT_SECONDS if address.sentinels else TIMEOUT_SECONDS
    pool = BlockingConnectionPool.from_url(
        address.url,
        max_connections=CONNECTIONS,
        timeout=TIMEOUT_SECONDS,
        decode_responses=True,
        driver_info=_DRIVER,
        encoding_errors="replace",  # what somebody pushed by hand may be no text
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=Retry(
            ExponentialWithJitterBackoff(base=0.05, cap=1.0),
            RETRIES,
            (NoConnection, NoReply) if patient else (NoConnection,),
        ),
    )
    kinds: list[type[Any]] = [_Packed, pool.connection_class]
    if address.sentinels:
        kinds.insert(1, _AtPrimary)
        pool.connection_kwargs["watch"] = _Watch(address, pool)
    # Whatever kind of connection the address asks for.
    pool.connection_class = type("_Connection", tuple(kinds), {})
    return Redis.from_pool(pool)


class _Watch:
    """The Sentinels that watch a service."""

    def __init__(self, address: RedisAddress, pool: BlockingConnectionPool) -> None:
        self._address = address
        user, password = address.sentinel_login
        given = pool.connection_kwargs
        self._options: dict[str, Any] = {
            "username": user or None,
            "password": password or None,
            "ssl": issubclass(pool.connection_class, SSLConnection),
            "socket_timeout": SENTINEL_TIMEOUT_SECONDS,
            "socket_connect_timeout": SENTINEL_TIMEOUT_SECONDS,
            "retry": Retry(NoBackoff(), 0),
            **{name: value for name, value in given.items() if name.startswith("ssl_")},
        }

    async def primary(self) -> tuple[str, int]:
        """Ask for host and port of the primary. Raises MasterNotFoundError."""
        async with self._sentinels() as sentinels:
            host, port = await sentinels.discover_master(self._address.service)
        return str(host), int(port)

    async def priorities(self) -> list[int]:
        """Ask for the replica-priority of each replica, also of one that is down."""
        async with self._sentinels() as sentinels:
            for sentinel in sentinels.sentinels:
                with suppress(RedisError, OSError):
                    found = await sentinel.sentinel_slaves(self._address.service)
                    return [int(each["slave-priority"]) for each in found]
        return []

    @asynccontextmanager
    async def _sentinels(self) -> AsyncIterator[Sentinel]:
        # In another order each time: one that is cut off names the primary of its own side.
        addresses = random.sample(self._address.sentinels, len(self._address.sentinels))
        sentinels = Sentinel(  # type: ignore[no-untyped-call] # redis-py leaves it untyped
            addresses, sentinel_kwargs=self._options
        )
        try:
            yield sentinels
        finally:
            await sentinels.aclose()


class _AtPrimary(Connection):
    """Asks the Sentinels each time it connects.

    Redis-py's own one repeats a failed command at the address that it had before.
    """

    def __init__(self, *, watch: _Watch, **options: Any) -> None:
        super().__init__(**options)
        self._watch = watch

    async def _connect(self) -> None:
        self.host, self.port = await self._watch.primary()
        await super()._connect()  # type: ignore[no-untyped-call] # redis-py leaves it untyped


class _Packed(AbstractConnection):
    """Writes scripts' calls in C, as redis-py's synchronous connections do."""

    def pack_command(self, *args: Any) -> list[bytes]:
        if args[0] != "EVALSHA":
            return super().pack_command(*args)
        return [hiredis.pack_command(args)]


async def watched_priorities(redis: Redis) -> list[int]:
    """List the replica-priority of each replica that Sentinels know; none where nobody watches."""
    watch: _Watch | None = redis.connection_pool.connection_kwargs.get("watch")
    return await watch.priorities() if watch else []


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
    with redis_asked():
        # Read first: a full Redis takes no write, and a worker that starts there has work to do.
        if await redis.get(key) is None:
            await redis.set(key, candidate, nx=True)
        return str(await redis.get(key))
