"""What operators ask and do over HTTP: lines, pauses, dead requests."""

from __future__ import annotations

from pathlib import Path

import greenstalk
import pytest
from aiohttp import ClientResponse
from door_ground import Client, FixedKeys, payloads, refused
from limits_bench import Worker
from operations_ground import Database, acts, record_dead, serving_all
from redis.asyncio import Redis

from devstack.servers import Server
from service.http import dead as dead_routes
from service.http.backend import operators
from service.http.callers import Callers
from service.operator.audit import Operator, recorded
from service.operator.keys import Scope
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
    more = {"together": 36}
    for wrong in ({"per_second": 0}, {"concurrent": None}, {"per_minute": 1}, more, {}):
        problem = await refused(await api.patch("/v1/lines/usps/limits", json=wrong), 422)
        assert next(iter(wrong), "per_second") in problem["detail"], wrong

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


async def names(response: ClientResponse) -> list[str]:
    assert response.status == 200, await response.text()
    return [each["_id"] for each in (await response.json())["dead"]]


async def test_the_dead_are_listed_page_by_page_the_newest_first(
    api: Client, collections: Database
) -> None:
    for name in "abcd":
        record_dead(collections, name, hours=name == "d")

    seen, cursor = [], ""
    while cursor is not None:
        reply = await api.get(f"/v1/dead?limit=3{cursor and f'&cursor={cursor}'}")
        seen += await names(reply)
        cursor = (await reply.json())["cursor"]

    assert seen == ["d", "c", "b", "a"]


async def test_the_dead_are_filtered(api: Client, collections: Database) -> None:
    record_dead(collections, "usps")
    record_dead(collections, "bytes", slug=None, operations=[], reason="bad_json", body=b"\xff")
    record_dead(collections, "shops", slug="hong-kong-post", operations=["shop/order-1"])
    record_dead(collections, "new", hours=2, operations=["shop/order-2", "order-2"])

    for query, found in {
        "slug=usps": ["new", "usps"],
        "slug=hkpost": ["shops"],
        "slug=nobody": [],
        "reason=bad_json": ["bytes"],
        "account=shop": ["new", "shops"],
        "account=main": ["new", "usps", "bytes"],
        "since=2026-11-20T13:00:00Z": ["new"],
        "account=shop&slug=usps": ["new"],
    }.items():
        assert await names(await api.get(f"/v1/dead?{query}")) == found, query

    one = await (await api.get("/v1/dead/bytes")).json()
    assert (one["_id"], one["body"], one["at"]) == ("bytes", "\\xff", "2026-11-20T12:00:00Z")
    await refused(await api.get("/v1/dead/never"), 404)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("slugg=usps", "slugg"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("since=2026", "since"),
        ("since=1795262400", "since"),
        ("since=2026.5", "since"),
        ("since=20261120T130000Z", "since"),
        ("since=2026-11-20", "since"),
        ("since=2026-11-20T13:00:00", "since"),
        ("since=2026-11-20T13:00:00Z&since=2026-11-20T14:00:00Z", "since"),
        ("since=2h", "since"),
        ("since=9999-12-31T23:59:59-14:00", "since"),
        ("account=A/b", "account"),
        ("cursor=x", "cursor"),
        ("cursor=99999999999999999999.a", "cursor"),
        ("cursor=1_000.a", "cursor"),
        ("cursor=1000", "cursor"),
        ("slug=a&slug=b", "slug"),
    ],
)
async def test_a_wrong_parameter_is_named(api: Client, query: str, name: str) -> None:
    problem = await refused(await api.get(f"/v1/dead?{query}"), 400)

    assert problem["parameter"] == name
    assert name in problem["detail"]


async def test_the_dead_are_kicked_by_filter_and_it_says_what_could_not_be(
    whole: Client, collections: Database, beanstalkd: Server
) -> None:
    record_dead(collections, "a")
    record_dead(collections, "cut", body="x" * 4_096)
    record_dead(collections, "other", reason="bad_json")

    kicked = await (await whole.post("/v1/dead/kick", json={"reason": "courier_down"})).json()

    [payload] = payloads(beanstalkd)
    assert payload["resend_of"] == "order-1"
    assert (kicked["kicked"], kicked["failed"], kicked["cursor"]) == (1, 1, None)
    [failure] = kicked["failures"]
    assert (failure["id"], "4096 bytes" in failure["detail"]) == ("cut", True)
    assert sorted(each["_id"] for each in collections.dead.find()) == ["cut", "other"]
    assert acts(collections) == [
        (None, "kick", {"reason": "courier_down"}, {"done": 1, "failed": 1})
    ]


async def test_the_dead_are_deleted_with_their_buried_jobs(
    whole: Client, collections: Database, beanstalkd: Server
) -> None:
    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, use="requests_flow", watch="requests_flow") as (
        tube
    ):
        job = tube.put(b"{")
        tube.bury(tube.reserve(timeout=1))
        record_dead(collections, "a", body="{", server=beanstalkd.url, job=job)
        record_dead(collections, "b", hours=1)
        record_dead(collections, "c", hours=2)
        await refused(await whole.delete("/v1/dead"), 400)

        named = await (await whole.delete("/v1/dead?ids=b&ids=c")).json()
        rest = await (await whole.delete("/v1/dead?all=true")).json()

        assert (named["deleted"], rest["deleted"]) == (2, 1)
        assert tube.stats_tube("requests_flow")["current-jobs-buried"] == 0
    assert [target for _, _, target, _ in acts(collections)] == [{"ids": ["b", "c"]}, {"all": True}]


@pytest.mark.parametrize("since", ["2026", "1795262400", "0", "-1", "today", ""])
async def test_what_is_no_time_deletes_and_kicks_nothing(
    whole: Client, collections: Database, beanstalkd: Server, since: str
) -> None:
    record_dead(collections, "a")

    await refused(await whole.delete(f"/v1/dead?since={since}"), 400)
    await refused(await whole.post("/v1/dead/kick", json={"since": since}), 422)

    assert collections.dead.count_documents({}) == 1
    assert payloads(beanstalkd) == []


async def test_more_than_one_act_may_do_goes_on_behind_what_was_done(
    whole: Client, collections: Database, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_routes, "RECORDS_MOST", 2)
    for hours, name in enumerate("abc"):
        record_dead(collections, name, hours, body="x" * 4_096)

    first = await (await whole.post("/v1/dead/kick", json={"all": True})).json()
    monkeypatch.setattr(operators, "ACT_SECONDS", 0.0)
    record_dead(collections, "0", -1)
    wanted = {"slug": "usps", "cursor": first["cursor"]}
    second = await (await whole.post("/v1/dead/kick", json=wanted)).json()

    assert [each["id"] for each in first["failures"]] == ["c", "b"]
    assert [each["id"] for each in second["failures"]] == ["a"]
    assert second["cursor"].endswith(".a")
    assert payloads(beanstalkd) == []
