"""A worker that starts with other credentials than those that were refused goes on at once."""

from __future__ import annotations

import pytest
from limits_bench import FAST, KEYS, USPS, Hire, Worker, failed
from redis.asyncio import Redis

from couriers.http.credentials import CourierSettings
from couriers.registry import Registry
from limits.admin.pause import Pauses
from limits.limiter import Policy
from service.config.schema import Config
from service.worker.wiring.lines import CourierLines, resume_where_changed
from tracking.line import Line


def lines(secret: str) -> CourierLines:
    own = CourierSettings(USPS, credentials={"client_id": "me", "secret": secret})
    return CourierLines(Config(), Registry([own]))


@pytest.fixture
async def brakes(redis: Redis) -> Pauses:
    return Pauses(redis, lambda _: FAST)


@pytest.fixture
async def refused(hire: Hire) -> Worker:
    worker = await hire(policy=Policy(mark_of=lines("wrong").mark_of))
    for number in ("N001", "N002", "N003"):
        await worker.limiter.retry(await worker.granted(number), failed("auth_failed"), 0)
    return worker


@pytest.mark.usefixtures("unread_log")
async def test_other_credentials_end_the_pause_of_wrong_ones(
    refused: Worker, brakes: Pauses, redis: Redis
) -> None:
    await resume_where_changed(brakes, lines("right"))

    assert await redis.exists(KEYS.calls_paused, KEYS.calls_brake) == 0
    calls = (await refused.take(claims=True)).calls
    assert {call.request.number for call in calls} == {"N001", "N002", "N003"}


@pytest.mark.usefixtures("unread_log")
async def test_they_are_tried_at_once_for_too_few_numbers_to_stop_a_line(
    hire: Hire, brakes: Pauses
) -> None:
    worker = await hire(policy=Policy(mark_of=lines("wrong").mark_of))
    await worker.limiter.retry(await worker.granted("N001"), failed("auth_failed"), 0)

    await resume_where_changed(brakes, lines("right"))

    assert [call.request.number for call in (await worker.take(claims=True)).calls] == ["N001"]


async def test_the_same_credentials_end_no_pause(
    refused: Worker, brakes: Pauses, redis: Redis
) -> None:
    await resume_where_changed(brakes, lines("wrong"))

    assert await redis.get(KEYS.calls_paused) == "auth_failed"
    assert (await refused.take()).calls == ()


@pytest.mark.usefixtures("unread_log", "refused")
async def test_other_credentials_do_not_end_a_pause_by_hand(brakes: Pauses, redis: Redis) -> None:
    await brakes.pause(Line(USPS), None)

    await resume_where_changed(brakes, lines("right"))

    assert await redis.exists(KEYS.calls_held)


@pytest.mark.usefixtures("refused")
async def test_no_credential_stands_in_redis(redis: Redis) -> None:
    assert "wrong" not in str(await redis.get(KEYS.calls_brake))
