"""`/v1/lines` and `/v1/stats`: for operators, and nothing at all for others."""

from __future__ import annotations

from pathlib import Path

import pytest
from door_ground import Client, FixedKeys, refused
from limits_bench import Worker
from operations_ground import Database, acts, record_dead, serving_all
from redis.asyncio import Redis

from service.api.callers import Callers
from service.client.audit import Operator, recorded
from service.client.keys import Scope
from tracking.operation import State

EVERY_ROUTE = (
    ("GET", "/v1/lines"),
    ("GET", "/v1/lines/usps"),
    ("POST", "/v1/lines/usps/pause"),
    ("POST", "/v1/lines/usps/resume"),
    ("GET", "/v1/lines/usps/limits"),
    ("PATCH", "/v1/lines/usps/limits"),
    ("DELETE", "/v1/lines/usps/limits"),
    ("GET", "/v1/dead"),
    ("GET", "/v1/dead/a"),
    ("POST", "/v1/dead/kick"),
    ("DELETE", "/v1/dead?all=true"),
    ("GET", "/v1/stats"),
    ("GET", "/metrics"),
)


async def test_for_all_others_there_is_nothing_at_these_paths(
    disk: Path, settings: dict[str, str], collections: Database
) -> None:
    keys = FixedKeys()
    everything = (Scope.INGEST, Scope.READ, Scope.ADMIN)
    others = [
        {},
        {"as-api-key": "tk_0123456789ab_00"},
        {"as-api-key": keys.make("main", Scope.INGEST, Scope.READ)},
        {"as-api-key": keys.make("shop", *everything)},
        {"as-api-key": keys.make("main", *everything, ends_at=1.0)},
    ]
    record_dead(collections, "a")
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        for method, path in EVERY_ROUTE:
            for headers in others:
                nothing = await api.request(method, "/v1/nothing", headers=headers)
                reply = await api.request(method, path, headers=headers, json={"all": True})
                assert (reply.status, await reply.read()) == (404, await nothing.read()), path

        admin = {"as-api-key": keys.make("main", Scope.ADMIN)}
        for method, path in EVERY_ROUTE:
            reply = await api.request(method, path, headers=admin, json={})
            assert reply.status == (422 if path.endswith("kick") or method == "PATCH" else 200), (
                path
            )

    assert {each["key"] for each in collections.audit.find()} == {admin["as-api-key"][:15]}


async def test_a_line_is_told_as_info_tells_it(api: Client, worker: Worker) -> None:
    await worker.granted("BUSY")
    await worker.parked("N001", id="a")

    one = await (await api.get("/v1/lines/usps")).json()
    every = await (await api.get("/v1/lines")).json()

    assert (one["slug"], one["running"], one["waiting_manual"]) == ("usps", 1, 1)
    assert one["bound_by"] in {"concurrency", "no_worker", "rate"}
    assert one["oldest_age_seconds"] >= 0
    [line] = every["lines"]
    assert line.keys() == one.keys()
    assert every["worries"] == []
    problem = await refused(await api.get("/v1/lines/uspss"), 404)
    assert "did you mean usps?" in problem["detail"]


async def test_what_waits_for_a_courier_that_is_gone_is_told_too(api: Client, redis: Redis) -> None:
    await redis.sadd("wait_slugs", "gone")
    await redis.rpush("wait_list:gone", "94001")

    one = await (await api.get("/v1/lines/gone")).json()
    every = await (await api.get("/v1/lines")).json()

    assert (one["bound_by"], one["waiting_manual"]) == ("not_configured", 1)
    assert "gone is not configured" in every["worries"][0]


async def test_a_line_is_paused_and_resumed_and_both_are_recorded(
    api: Client, redis: Redis, collections: Database
) -> None:
    wanted = {"seconds": 90, "reason": "they move house"}
    paused = await api.post("/v1/lines/hkpost/pause", json=wanted)
    seconds = await redis.ttl("calls_held:hong-kong-post")
    told = await (await api.get("/v1/lines/hong-kong-post")).json()
    resumed = await (await api.post("/v1/lines/hong-kong-post/resume")).json()
    again = await (await api.post("/v1/lines/hong-kong-post/resume")).json()

    assert await paused.json() == {"slug": "hong-kong-post", "paused": True, **wanted}
    assert 80 < seconds <= 90
    assert (told["bound_by"], told["paused_note"]) == ("paused", "they move house")
    assert resumed == {"slug": "hong-kong-post", "by_hand": True, "why": ""}
    assert again["by_hand"] is False
    slug = {"slug": "hong-kong-post"}
    assert acts(collections) == [
        (None, "pause", slug | wanted, {}),
        (None, "resume", slug, {"by_hand": True, "why": ""}),
        (None, "resume", slug, {"by_hand": False, "why": ""}),
    ]
    assert {each["via"] for each in collections.audit.find()} == {"http"}


async def test_limits_are_set_over_the_file_and_taken_back_and_both_are_recorded(
    api: Client, redis: Redis, collections: Database
) -> None:
    path = "/v1/lines/hkpost/limits"
    before = await (await api.get(path)).json()
    changed = await (await api.patch(path, json={"per_second": 5, "per_day": None})).json()
    line = await (await api.get("/v1/lines/hong-kong-post")).json()
    reset = await (await api.delete(path)).json()

    assert (before["slug"], before["set"]) == ("hong-kong-post", {})
    assert changed["limits"] == before["limits"] | {"per_second": 5, "per_day": None}
    assert changed["set"] == {"per_second": 5, "per_day": None}
    assert changed["known_to_workers"] is True
    assert line["per_second"] == 5
    assert reset == before
    assert await redis.get("tracking:rules") == "2"
    assert acts(collections) == [
        (None, "limits set", {"slug": "hong-kong-post", "limits": changed["set"]}, {}),
        (None, "limits reset", {"slug": "hong-kong-post", "limits": []}, {}),
    ]


async def test_limits_that_cannot_hold_are_refused_by_name(api: Client, redis: Redis) -> None:
    for wrong in ({"per_second": 0}, {"concurrent": None}, {"per_minute": 1}, {}):
        problem = await refused(await api.patch("/v1/lines/usps/limits", json=wrong), 422)
        assert next(iter(wrong), "per_second") in problem["detail"]

    assert not await redis.exists("tracking:rules")


async def test_a_pause_without_a_time_lasts_until_it_is_resumed(api: Client, redis: Redis) -> None:
    assert (await api.post("/v1/lines/usps/pause", json={})).status == 200

    assert await redis.ttl("calls_held:usps") == -1


async def test_an_act_is_recorded_before_it_is_done_and_its_failure_after(
    disk: Path, settings: dict[str, str], collections: Database, redis: Redis
) -> None:
    nowhere = {**settings, "TRACKER_REDIS__URL": "redis://127.0.0.1:1"}
    async with serving_all(disk / "spool.sqlite", nowhere) as api:
        await refused(await api.post("/v1/lines/usps/pause", json={}), 503)
    [(_, act, _, outcome)] = acts(collections)
    assert (act, "Redis" in outcome["error"]) == ("pause", True)

    collections.drop_collection("audit")
    collections.create_collection("audit", validator={"act": "nothing"})
    async with serving_all(disk / "spool.sqlite", settings) as api:
        await refused(await api.post("/v1/lines/usps/pause", json={}), 503)
    assert not await redis.exists("calls_held:usps")


def test_an_act_that_was_interrupted_is_not_recorded_as_done(collections: Database) -> None:
    def interrupted() -> None:
        with recorded(collections.audit, Operator(), "kick", {"all": True}):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert acts(collections) == [(None, "kick", {"all": True}, {"error": "KeyboardInterrupt"})]


@pytest.mark.parametrize(
    ("path", "body", "status", "name"),
    [
        ("/v1/lines/usps/pause", {"seconds": 0}, 422, "seconds"),
        ("/v1/lines/usps/pause", {"seconds": "90"}, 422, "seconds"),
        ("/v1/lines/usps/pause", {"reason": "x" * 201}, 422, "reason"),
        ("/v1/lines/usps/pause", {"why": "x"}, 422, "why"),
        ("/v1/lines/usps/pause", [], 422, None),
        ("/v1/dead/kick", {}, 422, "all"),
        ("/v1/dead/kick", {"all": True, "slug": "usps"}, 422, "all"),
        ("/v1/dead/kick", {"ids": "a"}, 422, "ids"),
        ("/v1/dead/kick", {"since": "9999-12-31T23:59:59-14:00"}, 422, "since"),
    ],
)
async def test_a_wrong_member_of_a_body_is_named(
    api: Client, path: str, body: object, status: int, name: str | None
) -> None:
    problem = await refused(await api.post(path, json=body), status)

    assert problem.get("parameter") == name


async def test_what_is_no_json_changes_nothing(api: Client, redis: Redis) -> None:
    path = "/v1/lines/usps/pause"
    await refused(await api.post(path, data=b"{}"), 415)
    json_type = {"Content-Type": "application/json"}
    for text in (b"{", b'{"reason": "\\ud800"}', b'{"reason": "a", "reason": "b"}'):
        await refused(await api.post(path, data=text, headers=json_type), 400)
    assert not await redis.exists("calls_held:usps")


async def test_statistics_are_told_as_stats_tells_them(api: Client, worker: Worker) -> None:
    await worker.finish(await worker.granted("N001", id="a"))

    found = await (await api.get("/v1/stats?last=10m")).json()
    of_one = await (await api.get("/v1/stats?slug=usps&last=2h")).json()

    assert found["total"][State.SUCCESS] == found["total"]["calls"] == 1
    assert (found["slug"], found["each_seconds"], len(found["spans"])) == (None, 10, 61)
    assert (of_one["slug"], of_one["total"]["operations"]) == ("usps", 1)
    for query, name in {"last=2w": "last", "slug=uspss": "slug", "a=1": "a"}.items():
        assert (await refused(await api.get(f"/v1/stats?{query}"), 400))["parameter"] == name
