"""How often a key may be used, and how its answers tell what is left."""

from __future__ import annotations

from pathlib import Path

import msgspec
from door_ground import NOWHERE, USPS, FixedKeys, post, refused, serving

from service.http.callers import BURST_SECONDS, Allowance, Callers
from service.operator.keys import Scope


async def test_a_key_that_is_used_too_often_is_told_when_to_come_again(
    keys: FixedKeys, spool: Path
) -> None:
    greedy, other = keys.make("main", Scope.INGEST), keys.make("main", Scope.INGEST)
    now = 0.0
    callers = Callers(keys, 0.5, clock=lambda: now)
    async with serving(spool, NOWHERE, callers=callers) as client:
        assert (await post(client, USPS, as_api_key=greedy)).status == 202
        response = await post(client, USPS, as_api_key=greedy)
        await refused(response, 429)
        assert response.headers["Retry-After"] == "2"
        assert (await post(client, USPS, as_api_key=other)).status == 202

        now = 2.0
        assert (await post(client, USPS, as_api_key=greedy)).status == 202


async def test_a_key_with_a_rate_of_its_own_is_used_as_often_as_that_says(
    keys: FixedKeys, spool: Path
) -> None:
    slow, fast = keys.make("main", Scope.INGEST, per_second=0.25), keys.make("main", Scope.INGEST)
    callers = Callers(keys, 10.0, clock=lambda: 0.0)
    async with serving(spool, NOWHERE, callers=callers) as client:
        assert (await post(client, USPS, as_api_key=slow)).status == 202
        response = await post(client, USPS, as_api_key=slow)
        assert "more than 0.25 requests a second" in (await refused(response, 429))["detail"]
        assert response.headers["Retry-After"] == "4"
        for _ in range(3):
            assert (await post(client, USPS, as_api_key=fast)).status == 202


async def test_each_answer_to_a_key_tells_how_much_is_left_of_its_rate_and_of_its_account(
    keys: FixedKeys, spool: Path
) -> None:
    key, other = keys.make("shop", Scope.INGEST, per_second=0.3), keys.make("main", Scope.INGEST)
    quotas = {"shop": {"requests_a_minute": 600}}
    keys.keys = msgspec.structs.replace(keys.keys, quotas=quotas)
    async with serving(spool, NOWHERE, callers=Callers(keys, 10.0, clock=lambda: 0.0)) as client:
        first = await post(client, USPS, as_api_key=key)
        refusal = await post(client, USPS, as_api_key=key)
        plain = await post(client, USPS, as_api_key=other)
        nobody = await post(client, USPS)

        assert first.headers["RateLimit-Policy"] == '"key";q=1;w=4, "account";q=600;w=60'
        assert first.headers["RateLimit"] == '"key";r=0;t=4, "account";r=599;t=60'
        assert (refusal.status, refusal.headers["RateLimit"]) == (
            429,
            '"key";r=0;t=4, "account";r=598;t=60',
        )
        assert plain.headers["RateLimit-Policy"] == '"key";q=20;w=2'
        assert plain.headers["RateLimit"] == '"key";r=19;t=1'
        assert "RateLimit" not in nobody.headers


async def test_the_type_of_a_problem_leads_to_where_it_is_explained_to_everybody(
    keys: FixedKeys, spool: Path
) -> None:
    keys.make("main", Scope.INGEST)
    async with serving(spool, NOWHERE, callers=Callers(keys, 10.0)) as client:
        problem = await refused(await post(client, USPS), 401)
        path, _, anchor = problem["type"].partition("#")
        page = await client.get(path)

        assert (page.status, page.content_type) == (200, "text/html")
        assert f'id="{anchor}"' in await page.text()


def test_a_allowance_fills_evenly_and_keeps_what_two_seconds_bring() -> None:
    allowance = Allowance(10.0, 0.0)

    assert [allowance.wait(0.0) for _ in range(int(10 * BURST_SECONDS) + 1)][-2:] == [0.0, 0.1]
    assert allowance.wait(0.1) == 0.0
    assert sum(allowance.wait(1_000.0) == 0.0 for _ in range(100)) == 10 * BURST_SECONDS
