"""What is wrong with Redis, where, and what to write: never the words of a library alone."""

from __future__ import annotations

import asyncio

import pytest
import redis
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004 - redis-py calls it so
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from devstack.kinds import REDIS
from devstack.servers import running
from limits.connect import open_redis, shared_secret
from limits.failure import redis_down
from limits.server import RedisAddress
from service.observe.redact import cleaner
from tracking.errors import LimitsDown


async def failure(url: str) -> LimitsDown:
    client = open_redis(RedisAddress(url))
    try:
        with pytest.raises(LimitsDown) as caught:
            await shared_secret(client, "secret", "x")
    finally:
        await client.aclose()
    return caught.value


async def test_a_real_redis_with_a_password_says_which_setting_to_correct() -> None:
    with running(REDIS) as server:
        with redis.Redis.from_url(server.url) as admin:
            admin.config_set("requirepass", "right")

        none = await failure(server.url)
        wrong = await failure(server.url.replace("://", "://:wrong@"))

    assert none.message == "Redis asks for a password"
    assert wrong.message == "Redis refuses the user name or the password"
    assert none.fix.startswith("Set it in redis.url (USER:PASSWORD@")
    assert wrong.fix.startswith("Correct them in redis.url (USER:PASSWORD@")
    assert str(wrong) == f"{wrong.message}. {wrong.fix}"
    # The log must not take the words for a password.
    assert cleaner(())({"fix": wrong.fix}) == {"fix": wrong.fix}


async def test_a_real_redis_that_is_not_there_says_so() -> None:
    told = await failure("redis://127.0.0.1:1/0")

    assert told.message == "Redis does not answer (Connection refused)"
    assert told.fix == "Start it, or correct redis.url."


async def test_another_service_at_the_address_is_told_as_that() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        told = await failure(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    assert told.message == "Redis is not what answers there, but something else"


@pytest.mark.parametrize(
    ("error", "what", "fix"),
    [
        (
            AuthenticationError("NOAUTH Authentication required."),
            "asks for a password",
            "redis.url",
        ),
        (AuthenticationError("WRONGPASS invalid"), "refuses the user name", "redis.url"),
        (NoPermissionError("no permissions to run 'set'"), "forbids a command (no p", "+@all"),
        (ReadOnlyError("read only replica"), "is a replica", "redis.sentinels"),
        (ResponseError("NOREPLICAS Not enough good replicas"), "too few replicas", "Start its"),
        (OutOfMemoryError("used memory > 'maxmemory'"), "is full", "maxmemory"),
        (
            MasterNotFoundError("No master : AuthenticationError('NOAUTH')"),
            "the Sentinels refuse user name or password",
            "redis.sentinel_password",
        ),
        (MasterNotFoundError("No master: <redis.asyncio<…>>"), "no primary that", "redis.service"),
        (InvalidResponse("Protocol error"), "is not what answers there", "redis.url"),
        (TimeoutError(), "does not answer (no answer in time)", "redis.url"),
        (ConnectionError("closed by server."), "does not answer (closed by server)", "redis.url"),
    ],
)
def test_each_failure_names_cause_and_fix(error: Exception, what: str, fix: str) -> None:
    told = redis_down(error)

    assert what in told.message
    assert fix in told.fix
    assert "<" not in told.message
