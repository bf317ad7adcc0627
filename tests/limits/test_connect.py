"""The way to Redis: one connection for scripts, and failures in words."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import ANY

import pytest
import redis
from limits_bench import KEYS, USPS, Hire, Worker, counted
from redis.asyncio import Redis
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as NoConnection

from devstack.kinds import REDIS
from devstack.servers import running
from devstack.stack import Stack
from limits.connect import answers, open_redis, shared_secret
from limits.failure import redis_down
from limits.pipeline import MOST_AT_ONCE, Pipeline, _next_of, _Step, _together
from limits.server import RedisAddress
from service.observe.redact import cleaner
from tracking.call import Granted
from tracking.errors import LimitsBroken, LimitsDown


@pytest.fixture
def mortal(stack: Stack, redis_url: str) -> Stack:
    """The servers, of which Redis may be killed."""
    if not stack.redis.ours:
        pytest.skip(f"the Redis at {redis_url} was not started here, so it is left alone")
    return stack


async def test_nothing_can_be_asked_while_redis_is_away_and_all_goes_on_after_it(
    worker: Worker, mortal: Stack, redis: Redis
) -> None:
    call = await worker.granted("N001", id="op-1")
    mortal.redis.kill()

    with pytest.raises(LimitsDown, match="does not answer"):
        await worker.admit("N002")
    mortal.redis.start()
    await worker.finish(call)

    assert isinstance(await worker.admit("N002"), Granted)
    assert await counted(redis, "SUCCESS") == (1,)


async def test_it_is_told_once_that_redis_is_away_and_once_that_it_is_back(
    mortal: Stack, hire: Hire
) -> None:
    heard: list[Exception | None] = []
    worker = await hire(notice=heard.append)
    mortal.redis.kill()
    for _ in range(2):
        with pytest.raises(LimitsDown):
            await worker.admit("N001")

    mortal.redis.start()
    await worker.admit("N001")
    await worker.admit("N002")

    assert [error is None for error in heard] == [False, True]


async def test_a_defect_is_told_to_those_who_asked_and_the_next_steps_go_on(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:

        async def breaks(*_: object) -> None:
            raise KeyError("a defect")

        broken.setattr(Pipeline, "_exchange", breaks)
        both = await asyncio.gather(
            worker.admit("N001"), worker.admit("N002"), return_exceptions=True
        )

    assert [type(each) for each in both] == [KeyError, KeyError]
    assert isinstance(await worker.admit("N003"), Granted)


async def test_a_probe_tells_whether_redis_answers(redis_url: str) -> None:
    client = open_redis(RedisAddress(redis_url))
    away = open_redis(RedisAddress("redis://127.0.0.1:1/0"))

    assert await answers(client)
    assert not await answers(away)
    await client.aclose()
    await away.aclose()


async def test_the_first_to_ask_for_a_secret_sets_it_for_all(redis: Redis) -> None:
    assert await shared_secret(redis, "tracking:secret", "first") == "first"
    assert await shared_secret(redis, "tracking:secret", "second") == "first"


async def test_a_thousand_steps_at_once_share_the_way_and_each_has_its_own_reply(
    worker: Worker,
) -> None:
    slugs = [f"slug-{n}" for n in range(1000)]

    admissions = await asyncio.gather(*(worker.admit("N001", slug=slug) for slug in slugs))

    assert [admission.call.request.slug for admission in admissions] == slugs


def test_steps_of_a_line_go_together_in_their_order_and_few_in_one_script() -> None:
    """A script shares what is done once for a line, and Redis hears nobody meanwhile."""
    lines = [f"wait_list:{n % 7}" for n in range(MOST_AT_ONCE)]
    steps: list[Any] = [_Step("admit", [line], [b"{}", n], ANY) for n, line in enumerate(lines)]

    groups = list(_together(steps))

    told = [(step.keys[0], step.args[1]) for group in groups for step in group]
    assert told == sorted(zip(lines, range(MOST_AT_ONCE), strict=True))
    assert [len(group) for group in groups] == [50, 50]


def test_the_oldest_step_goes_next_with_all_of_its_line_and_the_others_keep_their_order() -> None:
    lines = [f"wait_list:{n % 7}" for n in range(3 * MOST_AT_ONCE)]
    waiting: list[Any] = [_Step("admit", [line], [b"{}", n], ANY) for n, line in enumerate(lines)]

    steps, others = _next_of(waiting)

    assert [step.args[1] for step in steps] == [
        *range(0, 300, 7),
        *range(1, 300, 7),
        *range(2, 100, 7),
    ]
    assert others == [step for step in waiting if step not in steps]


def test_steps_that_have_much_to_do_are_fewer_in_a_script_but_one_at_least() -> None:
    weights = [20, 20, 10, 1, 60, 1]
    steps: list[Any] = [_Step("finish", ["wait_list:usps"], [], ANY, each) for each in weights]

    groups = list(_together(steps))

    assert [[step.weight for step in group] for group in groups] == [[20, 20, 10], [1], [60], [1]]


async def test_a_reply_for_a_caller_that_gave_up_disturbs_nobody(
    worker: Worker, redis: Redis
) -> None:
    tasks = [asyncio.create_task(worker.admit(f"N{n:03}")) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()

    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(first, Granted)
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, Granted)
    lost = set(await redis.zrange(KEYS.calls_leases, 0, -1)) - {first.call.id, third.call.id}
    assert len(lost) == 1
    assert await worker.limiter.sweep([USPS]) == []  # until its lease ends


async def test_what_cannot_be_done_for_one_courier_is_done_for_all_others_as_ever(
    worker: Worker, redis: Redis
) -> None:
    """Steps of one kind are one script; an error in the middle of it must not cut it short."""
    await redis.set("wait_inflight:broken", "somebody wrote here")
    slugs = ["before", "broken", "after"]

    first, second, third = await asyncio.gather(
        *(worker.admit("N001", slug=slug) for slug in slugs), return_exceptions=True
    )

    assert isinstance(first, Granted)
    assert isinstance(second, LimitsBroken)
    assert isinstance(third, Granted)
    for slug in ("before", "after"):
        assert await redis.hgetall(f"tracking:counts:{slug}") == {"calls": "1"}
        assert await redis.get(f"calls_number:{slug}") == "1"
        assert 0 < await redis.pttl(f"calls_leases:{slug}") <= 60_000
        assert 0 < await redis.pttl(f"call_starts:{slug}") <= 2_170
        assert await redis.sismember(KEYS.lines, slug)


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
        (NoConnection("closed by server."), "does not answer (closed by server)", "redis.url"),
    ],
)
def test_each_failure_names_cause_and_fix(error: Exception, what: str, fix: str) -> None:
    told = redis_down(error)

    assert what in told.message
    assert fix in told.fix
    assert "<" not in told.message
