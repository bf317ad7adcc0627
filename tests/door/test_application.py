"""What a process that serves does for all: held replies, tasks in the background, figures."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from door_ground import USPS, Client, FixedKeys, post, refused
from limits_bench import Worker
from operations_ground import Database, hearing, serving_all
from redis.asyncio import Redis

from devstack.servers import free_port
from limits.admin import violations
from limits.admin.snapshot import LineSnapshot
from limits.admin.violations import Violations
from limits.ends import Ends
from limits.rules import Rules
from service.config.load import load
from service.http import serve as module
from service.http.backend import figures as line_figures
from service.http.backend import listeners
from service.http.backend.door import Door
from service.http.backend.figures import figures_of_violations, of_line
from service.http.backend.keyring import Keyring
from service.http.backend.listeners import Listener, Listeners, Progress
from service.http.callers import Callers
from service.http.exchange import Problem
from service.http.operations import OperationRoutes
from service.observe import background
from service.observe.background import ENDS_MOST
from service.operator.keys import Scope
from tracking.line import Line
from tracking.request import MAIN, Account

SHOP = Account("shop")


def routes(keys: FixedKeys, most: int) -> OperationRoutes:
    operations: Any = SimpleNamespace(held=Counter(), held_most=most)
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
    assert "4 replies are held for tk_" in refusals[0].detail
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


Written = Callable[[], list[dict[str, Any]]]


Serve = Callable[[], Awaitable[bool]]


TASKS = (
    ("ends", Ends, "read"),
    ("looks", Ends, "look"),
    ("events", Listeners, "run"),
    ("progress", Progress, "run"),
    ("violations", violations, "_judge_on"),
    ("spool", Door, "empty_spool"),
    ("keys", Keyring, "keep_fresh"),
)


SOON = 10.0


class Broken:
    """Breaks so many times, and then runs for ever."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.runs = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        if self.left:
            self.left -= 1
            raise KeyError("no such member")
        self.runs.set()
        await asyncio.Event().wait()


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Stands for a signal."""
    event = asyncio.Event()
    monkeypatch.setattr(module, "_on_signals", lambda: event)
    monkeypatch.setattr(background, "FIRST_WAIT_SECONDS", 0.0)
    return event


@pytest.fixture
def serve(disk: Path, settings: dict[str, str]) -> Serve:
    def begin() -> Awaitable[bool]:
        config = load(None, settings, Path("/")).config
        return module.until_stopped(config, f"127.0.0.1:{free_port()}", disk, door_alone=False)

    return begin


async def test_what_api_does_unasked_is_logged_when_it_ends_and_begun_again(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, stopped: asyncio.Event, written: Written
) -> None:
    broken = {name: Broken(1) for name, _, _ in TASKS}
    for name, where, run in TASKS:
        monkeypatch.setattr(where, run, broken[name])

    async with asyncio.timeout(SOON):
        serving = asyncio.ensure_future(serve())
        for each in broken.values():
            await each.runs.wait()
        stopped.set()
        fit = await serving

    told = [line for line in written() if line["event"] == "background task ended"]
    assert {(line["task"], line["ends"]) for line in told} == {(name, 1) for name in broken}
    assert fit


async def test_what_keeps_ending_ends_the_process_in_good_order(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, stopped: asyncio.Event, written: Written
) -> None:
    monkeypatch.setattr(Keyring, "keep_fresh", Broken(ENDS_MOST))

    async with asyncio.timeout(SOON):
        fit = await serve()

    events = [line["event"] for line in written()]
    assert (fit, stopped.is_set()) == (False, False)
    assert "process is unfit" in events
    assert events[-1] == "door is closed"


Figures = dict[str, float]


async def figures(client: Client) -> Figures:
    """Each series as it is written, with its value."""
    reply = await client.get("/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = (line.rpartition(" ") for line in (await reply.text()).splitlines())
    return {series: float(value) for series, _, value in lines if series[:1] not in {"#", ""}}


async def test_redis_tells_how_the_lines_stand(api: Client, worker: Worker) -> None:
    await worker.granted("BUSY")
    await worker.parked("N001")

    told = await figures(api)

    assert told["tracker_redis_up"] == 1
    assert told['tracker_calls_in_flight{slug="usps"}'] == 1
    assert told['tracker_waiting_requests{list="manual",slug="usps"}'] == 1
    assert told['tracker_waiting_requests{list="automatic",slug="usps"}'] == 0
    assert told['tracker_waiting_oldest_seconds{slug="usps"}'] >= 0
    assert told['tracker_unused_starts_per_second{slug="usps"}'] == 0


async def test_how_far_re_checks_are_behind_is_told_of_couriers_of_which_some_are_due(
    api: Client, collections: Database
) -> None:
    due = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    collections.tracking.insert_many(
        {"slug": "usps", "active": True, "next_check_at": due, "_id": f"usps:{n}"} for n in range(3)
    )

    told = await figures(api)

    assert told['tracker_checks_due{slug="usps"}'] == 3
    assert 3_600 <= told['tracker_checks_behind_seconds{slug="usps"}'] < 3_660
    assert sum("tracker_checks" in series for series in told) == 2  # nothing of others is due


def test_how_full_calls_are_is_told_of_couriers_that_take_several_numbers() -> None:
    line = LineSnapshot(Line("feed"), 20, 2, "", together=30, calls=2, numbers=45)

    told = of_line(line)

    assert told["tracker_numbers_called_total", "feed"] == 45
    assert told["tracker_calls_made_total", "feed"] == 2
    assert ("tracker_calls_made_total", "feed") not in of_line(replace(line, together=1))


async def test_the_guard_that_fits_is_told_of_lines_whose_answers_scatter(
    api: Client, redis: Redis
) -> None:
    who = json.dumps({"token": "t", "guards": {"usps": 80}})
    await redis.zadd("tracking:workers", {who: 9e15})

    told = await figures(api)

    assert told['tracker_fitting_guard_seconds{slug="usps"}'] == 0.08


async def test_without_redis_it_tells_just_that(disk: Path, settings: dict[str, str]) -> None:
    away = settings | {"TRACKER_REDIS__URL": "redis://127.0.0.1:1/0"}
    async with serving_all(disk / "spool.sqlite", away) as api:
        told = await figures(api)

    assert told["tracker_redis_up"] == 0
    assert not [series for series in told if "usps" in series]


async def test_a_redis_that_hangs_holds_no_scrape_up(
    disk: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_figures, "PATIENCE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        hangs = settings | {"TRACKER_REDIS__URL": f"redis://127.0.0.1:{mute.getsockname()[1]}/0"}
        async with serving_all(disk / "spool.sqlite", hangs) as api:
            told = await asyncio.wait_for(figures(api), 5.0)

    assert told["tracker_redis_up"] == 0


async def test_the_door_alone_tells_nothing_of_redis_but_what_it_spools(alone: Client) -> None:
    assert (await post(alone, USPS)).status == 202

    told = await figures(alone)

    assert (told["tracker_beanstalkd_up"], told["tracker_spooled_requests"]) == (0, 1)
    assert "tracker_redis_up" not in told


async def test_requests_are_counted_by_route_and_status(client: Client) -> None:
    await post(client, USPS)
    await post(client, USPS | {"number": "!"})
    await client.get("/v1/nothing/4711")
    await client.delete("/livez")

    told = await figures(client)

    def requests(method: str, route: str, status: int) -> float:
        labels = f'method="{method}",route="{route}",status="{status}"'
        return told[f"tracker_http_requests_total{{{labels}}}"]

    assert requests("POST", "/v1/requests", 202) == 1
    assert requests("POST", "/v1/requests", 422) == 1
    assert requests("other", "other", 404) == 1
    assert requests("other", "other", 405) == 1
    assert told['tracker_http_request_duration_seconds_count{route="/v1/requests"}'] == 2
    assert 0 < told['tracker_http_request_duration_seconds_sum{route="/v1/requests"}'] < 5


def test_broken_limits_are_told_by_line_and_limit() -> None:
    violations = Violations(lambda _: Rules(per_second=1), exempt_us=0)
    violations.note(1, "epoch", [])
    violations.note(9_000_000, "epoch", [(4_000, 'usps ["a",2000000,"b",2500000]')])

    assert figures_of_violations(violations) == {
        ("tracker_limit_violations_total", "usps", "rate"): 1,
        ("tracker_limit_violations_total", "usps", "concurrency"): 0,
    }
