"""What one account's postal code unlocked is read by no other, whatever route it asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from aftership_answers import answer_of
from aftership_ground import AT
from door_ground import USPS, Client, FixedKeys
from limits_bench import Worker, everything
from operations_ground import serving_all
from redis.asyncio import Redis

from service.api.callers import Callers
from service.client.keys import Scope
from service.config.schema import Recheck
from service.flow.call import CallRunner, Stores
from service.flow.handle import Admitter
from service.flow.tasks import CallSlots, Tasks
from service.flow.tracking_work import RetryRules, TrackingWork
from service.results.connection import Store
from service.results.trackings import Trackings
from tracking.account import Account, operation_id
from tracking.call import Call, Ended, Granted
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.request import Number, Slug, TrackingRequest

PATH = f"/v1/parcels/{USPS['slug']}/{USPS['number']}"
RIGHT, WRONG, PLAIN = {"tracking_postal_code": "NE14LP"}, {"tracking_postal_code": "SW1A"}, {}
LEFT = Checkpoint("2026-05-04T10:00:00", "left", Tag.IN_TRANSIT, "InTransit_001")
ARRIVED = Checkpoint("2026-05-05T10:00:00", "at the neighbour's", Tag.DELIVERED, "Delivered_003")
OPEN = Tracking(Tag.IN_TRANSIT, "InTransit_001", (LEFT,))
UNLOCKED = Tracking(
    Tag.DELIVERED,
    "Delivered_003",
    (LEFT, ARRIVED),
    signed_by="J. Doe",
    proof_of_delivery="https://example.com/signature",
)
SECRETS = ("J. Doe", "signature", "neighbour", "Delivered", "NE14LP")


class Flow:
    """A worker's flow over real stores; its courier tells all to those with the right code."""

    def __init__(self, worker: Worker, store: Store) -> None:
        self.calls: list[dict[str, str]] = []
        results = Trackings(store, lambda _: Recheck())
        counts = SimpleNamespace(count=lambda *_: None)
        stores = Stores(worker.limiter, results, *[counts] * 5)
        slots = CallSlots(5, results)
        self._admitter = Admitter(worker.limiter, results, slots)
        work = TrackingWork(self._track, results, counts, RetryRules(), lambda _: b"")
        self._runner = CallRunner(lambda _: work, stores, Tasks(), slots)

    async def _track(self, call: Call) -> Tracking:
        self.calls.append(dict(call.request.fields))
        return UNLOCKED if call.request.fields == RIGHT else OPEN

    async def admitted(self, account: str, fields: dict[str, str], name: str = "a") -> object:
        slug, number = Slug(USPS["slug"]), Number(USPS["number"])
        identity = operation_id(Account(account), name)
        max_age = None if name == "a" else 0.0
        request = TrackingRequest(slug, number, number, identity, max_age=max_age, fields=fields)
        return await self._admitter.admit(request, f"job of {identity}")

    async def asked(self, account: str, fields: dict[str, str], name: str = "a") -> None:
        """Have a request of an account carried to its end; one not called `a` asks the courier."""
        admission = await self.admitted(account, fields, name)
        if isinstance(admission, Granted):
            await self._runner.run([admission.call])
        else:
            assert isinstance(admission, Ended)


class Ground(NamedTuple):
    """An api that several accounts ask, and the flow behind it."""

    flow: Flow
    api: Client
    keys: dict[str, str]

    async def told(self, account: str) -> dict[str, str]:
        """All that an account is told, by route."""
        header = {"as-api-key": self.keys[account]}
        listed = await answer_of(await self.api.get(AT, headers=header))
        [shown] = listed["trackings"]
        routes = (PATH, f"{PATH}/operations", "/v1/operations/a", f"{AT}/{shown['id']}")
        replies = {each: await self.api.get(each, headers=header) for each in routes}
        assert {each: reply.status for each, reply in replies.items()} == dict.fromkeys(routes, 200)
        whole = {each: await reply.text() for each, reply in replies.items()}
        return whole | {AT: json.dumps(listed)}


@pytest.fixture
def opened(disk: Path, settings: dict[str, str], worker: Worker, store: Store) -> Any:
    @asynccontextmanager
    async def ground(*accounts: str) -> AsyncIterator[Ground]:
        made = FixedKeys()
        keys = {each: made.make(each, Scope.READ, Scope.INGEST) for each in accounts}
        callers = Callers(made, 1_000.0)
        async with serving_all(disk / "spool.sqlite", settings, callers=callers) as api:
            for each in accounts:
                said = {"tracking_number": USPS["number"], "slug": USPS["slug"]}
                header = {"as-api-key": keys[each]}
                await answer_of(await api.post(AT, json=said, headers=header), 201)
            yield Ground(Flow(worker, store), api, keys)

    return ground


def reads_it(told: dict[str, str]) -> bool:
    return "J. Doe" in told[PATH] and "J. Doe" in told[AT]


def leaks(told: dict[str, str]) -> list[tuple[str, str]]:
    return [(each, route) for route, text in told.items() for each in SECRETS if each in text]


@pytest.mark.parametrize(("knows", "does_not"), [("main", "shop"), ("shop", "main")])
async def test_what_a_postal_code_unlocked_is_told_to_those_who_gave_it_alone(
    opened: Any, redis: Redis, knows: str, does_not: str
) -> None:
    asks = {knows: RIGHT, "twin": RIGHT, "other": WRONG, does_not: PLAIN}
    async with opened(*asks) as ground:
        for account, fields in asks.items():
            await ground.flow.asked(account, fields)

        for account, fields in asks.items():
            told = await ground.told(account)
            if fields == RIGHT:
                assert reads_it(told), account
            else:
                assert leaks(told) == [], account
    assert ground.flow.calls == [RIGHT, RIGHT, WRONG, PLAIN]
    # Operations and events are told from here.
    assert [each for each in SECRETS[:3] if each in json.dumps(await everything(redis))] == []
