"""Tokens: one renewal at a time, renewed early, and once more after a refusal."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit

from couriers.http.credentials import Grant, Token
from couriers.http.fetch import TokenCache
from service.worker.flow.tasks import Deadlines
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
)

KEY = ("usps", "", ())
Refusal = tuple[int, str, type[CourierError]]


class TokenCourier:
    """Gives out numbered tokens and accepts those it is told to."""

    def __init__(self) -> None:
        self.given = 0
        self.asked: list[str | None] = []
        self.posted: list[object] = []
        self.accepted = {"token-1"}
        self.lifetime: object = "28799"
        self.token_answer: web.Response | None = None
        self.hold: asyncio.Event | None = None
        self.asked_for_a_token = asyncio.Event()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/token":
            return await self._token(request)
        authorization = request.headers.get("Authorization")
        self.asked.append(authorization)
        known = (authorization or "").removeprefix("Bearer ") in self.accepted
        return web.Response(status=200 if known else 401, text="{}")

    async def _token(self, request: web.BaseRequest) -> web.Response:
        self.given += 1
        self.posted.append(json.loads(await request.read()))
        self.asked_for_a_token.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.token_answer is not None:
            return self.token_answer
        body = {"access_token": f"token-{self.given}", "expires_in": self.lifetime}
        return web.json_response(body)


@pytest.fixture
def tokens_of() -> TokenCourier:
    return TokenCourier()


def grant_of(address: str) -> Grant:
    return Grant(f"{address}/token", json={"client_id": "the-client"})


async def test_a_token_is_asked_for_once_and_without_a_permit(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    for _ in range(2):
        fetch = fetch_for(address, own_permit=RecordingPermit())
        answer = await fetch.get(["a"], grant=grant_of(address))
        assert answer.status == 200
    await fetch_for(address).get(["a"], grant=grant_of(address))

    assert tokens_of.given == 1
    assert tokens_of.asked == ["Bearer token-1"] * 3
    assert tokens_of.posted == [{"client_id": "the-client"}]
    assert permit.steps == ["before_send", "after_send"]


async def test_many_calls_at_once_share_one_renewal(
    courier: Courier, fetch_for: FetchFor, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    tokens_of.hold = asyncio.Event()
    calls = [
        asyncio.create_task(
            fetch_for(address, own_permit=RecordingPermit()).get(["a"], grant=grant_of(address))
        )
        for _ in range(20)
    ]
    # Every call began before the first of them reached the token endpoint.
    await asyncio.wait_for(tokens_of.asked_for_a_token.wait(), 5)
    tokens_of.hold.set()
    answers = await asyncio.gather(*calls)

    assert {answer.status for answer in answers} == {200}
    assert tokens_of.given == 1


async def test_a_stale_token_is_renewed_once_and_the_request_repeated_with_a_permit(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    await fetch_for(address, own_permit=RecordingPermit()).get(["a"], grant=grant_of(address))
    tokens_of.accepted = {"token-2"}
    answer = await fetch_for(address).get(["a"], grant=grant_of(address))

    assert answer.status == 200
    assert tokens_of.given == 2
    assert tokens_of.asked == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]
    step = ["before_send", "after_send"]
    assert permit.steps == [*step, "again", *step]


async def test_a_second_refusal_is_final_and_the_token_forgotten(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    await fetch_for(address, own_permit=RecordingPermit()).get(["a"], grant=grant_of(address))
    tokens_of.accepted = set()
    answer = await fetch_for(address).get(["a"], grant=grant_of(address))
    assert answer.status == 401
    assert tokens_of.given == 2
    assert permit.steps.count("before_send") == 2
    tokens_of.accepted = {"token-3"}
    answer = await fetch_for(address, own_permit=RecordingPermit()).get(
        ["a"], grant=grant_of(address)
    )

    assert answer.status == 200


async def test_a_token_that_was_fetched_for_this_very_call_is_not_tried_twice(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    tokens_of.accepted = set()
    answer = await fetch_for(address).get(["a"], grant=grant_of(address))

    assert answer.status == 401
    assert tokens_of.given == 1
    assert permit.steps == ["before_send", "after_send"]


@pytest.mark.parametrize(
    "refusal",
    [
        (400, '{"error": "invalid_client"}', AuthFailed),
        (401, '{"error": "invalid_client"}', AuthFailed),
        (403, "no tracking scope", AuthFailed),
        (403, "quota exceeded", RateLimited),
        (404, "", RequestRefused),
        (429, "", RateLimited),
        (503, "", CourierDown),
        (302, "", RequestRefused),
        (200, "<html>", UnreadableAnswer),
        (200, "{}", UnreadableAnswer),
        (200, '{"access_token": 5}', UnreadableAnswer),
        (200, '{"access_token": "line\\r\\nbreak"}', UnreadableAnswer),
    ],
)
async def test_a_token_that_cannot_be_had_spends_no_permit_and_keeps_no_body(
    refusal: Refusal, courier: Courier, fetch_for: FetchFor, tokens_of: TokenCourier
) -> None:
    status, text, error = refusal
    permit = RecordingPermit()
    address = await courier(tokens_of)
    tokens_of.token_answer = web.Response(status=status, text=text)
    with pytest.raises(error) as failed:
        await fetch_for(address, own_permit=permit).get(["a"], grant=grant_of(address))

    assert failed.value.http_status == status
    assert failed.value.excerpt == ""
    assert permit.steps == []


async def test_a_token_endpoint_that_hangs_ends_with_the_calls_deadline(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    tokens_of.hold = asyncio.Event()
    permit.deadline = asyncio.get_running_loop().time() + 0.2
    with pytest.raises(TimeoutError):
        await Deadlines().hold(
            permit.deadline, fetch_for(address).get(["a"], grant=grant_of(address))
        )

    assert permit.steps == []


@pytest.mark.parametrize("lifetime", ["28799", 28799, 28799.0])
async def test_the_lifetime_may_be_a_string(
    lifetime: object, courier: Courier, fetch_for: FetchFor, tokens_of: TokenCourier
) -> None:
    address = await courier(tokens_of)
    tokens_of.lifetime = lifetime
    for _ in range(2):
        await fetch_for(address, own_permit=RecordingPermit()).get(["a"], grant=grant_of(address))

    assert tokens_of.given == 1


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_is_renewed_a_minute_before_it_ends() -> None:
    clock = Clock()
    cache = TokenCache(clock)
    given = iter("ab")

    async def renew() -> Token:
        return Token(next(given), 300.0)

    assert await cache.get(KEY, renew) == ("a", False)
    clock.now += 239
    assert await cache.get(KEY, renew) == ("a", True)
    clock.now += 2
    assert await cache.get(KEY, renew) == ("b", False)


async def test_who_waits_for_a_renewal_shares_its_failure() -> None:
    cache = TokenCache()
    attempts = 0
    go_on = asyncio.Event()

    async def renew() -> Token:
        nonlocal attempts
        attempts += 1
        await go_on.wait()
        raise AuthFailed("no")

    calls = [asyncio.create_task(cache.get(KEY, renew)) for _ in range(5)]
    await asyncio.sleep(0)
    go_on.set()
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(result) for result in results] == [AuthFailed] * 5
    assert attempts == 1


async def test_a_renewal_whose_call_is_cancelled_is_taken_over_by_one_of_the_others() -> None:
    cache = TokenCache()
    attempts = 0

    async def renew() -> Token:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.Event().wait()
        return Token("late", 300.0)

    first = asyncio.create_task(cache.get(KEY, renew))
    others = [asyncio.create_task(cache.get(KEY, renew)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    values = [value for value, _ in await asyncio.gather(*others)]

    assert values == ["late"] * 3
    assert attempts == 2


async def test_a_waiting_call_that_is_cancelled_does_not_disturb_the_renewal() -> None:
    cache = TokenCache()
    go_on = asyncio.Event()

    async def renew() -> Token:
        await go_on.wait()
        return Token("a", 300.0)

    first = asyncio.create_task(cache.get(KEY, renew))
    second = asyncio.create_task(cache.get(KEY, renew))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    go_on.set()

    assert await first == ("a", False)
    assert second.cancelled()


async def test_forgetting_an_old_token_keeps_the_newer_one() -> None:
    cache = TokenCache()

    async def renew() -> Token:
        return Token("new", 300.0)

    await cache.get(KEY, renew)
    cache.forget(KEY, "old")

    assert await cache.get(KEY, renew) == ("new", True)
