"""`/metrics` of `api` and `ingest`: the door, HTTP, and how Redis says that the lines stand."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from door_ground import USPS, Client, post
from limits_bench import Worker
from operations_ground import serving_all
from redis.asyncio import Redis

from limits.admin.violations import Violations
from limits.rules import Rules
from service.client import figures as line_figures
from service.client.figures import figures_of_violations

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
