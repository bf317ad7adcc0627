"""`/v1/dead`: listed page by page, kicked and deleted by filter."""

from __future__ import annotations

import greenstalk
import pytest
from aiohttp import ClientResponse
from door_ground import Client, payloads, refused
from operations_ground import Database, acts, record_dead

from devstack.servers import Server
from service.api import dead as dead_routes
from service.client import operators


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
