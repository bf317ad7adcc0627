"""No key takes all replies that a process can hold from the others."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from door_ground import Client, FixedKeys, refused
from events_ground import hearing
from operations_ground import serving_all

from service.api.callers import Callers
from service.api.exchange import Problem
from service.api.operations import OperationRoutes
from service.client import listeners
from service.client.keys import Scope
from service.client.listeners import Listener, Progress
from tracking.account import MAIN, Account

SHOP = Account("shop")


def routes(keys: FixedKeys, most: int) -> OperationRoutes:
    operations: Any = SimpleNamespace(held_most=most)
    return OperationRoutes(operations, cast("Any", None), Callers(keys, 1_000.0))


def asked_with(key: str) -> web.Request:
    return make_mocked_request("GET", "/", headers={"as-api-key": key})


def test_one_key_holds_half_of_all_replies_and_leaves_some_for_every_other() -> None:
    keys = FixedKeys()
    first, second, third = (asked_with(keys.make("shop", Scope.READ)) for _ in "123")
    held, refusals = routes(keys, 8), list[Problem]()

    def hold_all(request: web.Request, closing: contextlib.ExitStack) -> int:
        for count in range(9):
            try:
                closing.enter_context(held.holding(request))
            except Problem as problem:
                refusals.append(problem)
                return count
        return 9

    with contextlib.ExitStack() as closing:
        assert [hold_all(each, closing) for each in (first, second, third)] == [4, 2, 1]
    assert {(each.status, *(each.headers or ())) for each in refusals} == {(429, "Retry-After")}
    assert "4 replies are held for the key tk_" in refusals[0].detail
    with contextlib.ExitStack() as closing:  # all of them are free again
        assert hold_all(second, closing) == 4


def test_without_keys_all_replies_are_for_all() -> None:
    held, request = routes(FixedKeys(), 3), make_mocked_request("GET", "/")

    with contextlib.ExitStack() as closing:
        for _ in range(3):
            closing.enter_context(held.holding(request))
        with pytest.raises(Problem, match="3 replies are held: ask without") as raised:
            closing.enter_context(held.holding(request))

    assert raised.value.status == 503


async def test_a_key_that_listens_too_often_keeps_no_other_out(
    disk: Path, settings: dict[str, str]
) -> None:
    keys = FixedKeys()
    greedy, other = (keys.make(name, Scope.READ) for name in ("shop", "main"))
    callers = Callers(keys, 1_000.0)
    async with (
        serving_all(disk / "spool.sqlite", settings, callers=callers, connections=4) as api,
        hearing(api, as_api_key=greedy),
        hearing(api, as_api_key=greedy),
    ):
        listening = await api.get("/v1/events", headers={"as-api-key": greedy})
        await refused(listening, 429)
        assert listening.headers["Retry-After"]
        waiting = await api.get("/v1/operations/a?wait=1", headers={"as-api-key": greedy})
        await refused(waiting, 429)
        await refused(await api.get("/v1/operations/a", headers={"as-api-key": greedy}), 404)

        async with hearing(api, as_api_key=other):
            pass


def test_one_account_watches_half_of_what_can_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "WATCHED_MOST", 4)
    watched = Progress(cast("Any", None))
    assert watched.take(Listener(SHOP, frozenset("ab")), SHOP)

    assert not watched.take(Listener(SHOP, frozenset("e")), SHOP)
    assert watched.take(Listener(MAIN, frozenset("cd")), MAIN)
    assert not watched.take(Listener(MAIN, frozenset("f")), None)


async def test_who_asks_to_watch_at_once_has_no_more_room(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "WATCHED_MOST", 3)
    asked = [asyncio.create_task(api.get(f"/v1/events?id={n}&progress=1")) for n in range(14)]

    statuses = sorted([(await each).status for each in asked])

    assert statuses == [200] * 3 + [503] * 11
