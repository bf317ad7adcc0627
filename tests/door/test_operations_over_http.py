"""`/v1/operations/{id}`: where a request stands; awaited, cancelled and resent."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymongo
import pytest
from aiohttp import ClientResponse, web
from door_ground import USPS, Client, FixedKeys, jobs_in, post, refused, serving
from limits_bench import Worker
from operations_ground import ARCHIVED, in_state, serving_all
from redis.asyncio import Redis

from devstack.servers import Server, free_port
from limits import ends
from limits.archive import Ended
from limits.ends import hearing
from service.http.callers import Callers
from service.observe.background import Background
from service.operator.keys import Scope
from service.worker.results.operations import operation_in as told_of_archive
from service.worker.results.operations import read_ended
from tracking.call import Verdict
from tracking.operation import State

SOON = 5.0


DELIVERED = {"tag": "Delivered", "subtag": "Delivered_001", "delivered": True, "checkpoints": 3}


async def told(api: Client, identity: str, query: str = "") -> dict[str, Any]:
    response = await api.get(f"/v1/operations/{identity}{query}")
    assert (response.status, response.content_type) == (200, "application/json")
    found: dict[str, Any] = await response.json()
    return found


def held(api: Client, identity: str, seconds: float = 60) -> asyncio.Task[ClientResponse]:
    return asyncio.create_task(api.get(f"/v1/operations/{identity}?wait={seconds:g}"))


async def awaited(redis: Redis, count: int = 1) -> None:
    """Wait until the server listens for ends, or does so no more."""
    deadline = time.monotonic() + SOON
    while sum("b" in each["flags"] for each in await redis.client_list()) != count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_an_operation_is_told_in_every_state(api: Client, worker: Worker) -> None:
    call = await worker.granted("N001", id="a")
    await worker.parked("N002", id="b")
    running, waits = await told(api, "a"), await told(api, "b")
    await worker.finish(call, Verdict(State.SUCCESS, DELIVERED))
    ended = await told(api, "a")

    place = waits["place"]
    assert (place["list"], place["ahead"], place["bound_by"]) == ("manual", 0, "no_worker")
    assert waits == {
        "id": "b",
        "slug": "usps",
        "number": "N002",
        "status": "WAITING",
        "startedAt": None,
        "finishedAt": None,
        "output": None,
        "place": place,
    }
    assert (running["status"], running["place"]) == ("RUNNING", None)
    assert running["startedAt"] == ended["startedAt"] < ended["finishedAt"]
    assert (ended["status"], ended["output"]) == ("SUCCESS", DELIVERED)


async def test_an_operation_without_an_id_of_its_producers_is_told_by_the_one_it_has(
    api: Client, worker: Worker
) -> None:
    await worker.granted("BUSY")
    await worker.parked("N 1/2", job="j")

    waits = await told(api, quote("usps:N 1/2:j", safe=""))

    assert (waits["id"], waits["number"], waits["status"]) == ("usps:N 1/2:j", "N 1/2", "WAITING")


@pytest.mark.parametrize("identity", ["never", "acme%2Forder-7", "x" * 600, "%FF%00", "%F0%9F"])
async def test_an_id_that_is_not_known_is_404(api: Client, redis: Redis, identity: str) -> None:
    await redis.set("tracking:status:acme/order-7", '{"status":"SUCCESS","tracking":"usps:N001"}')

    problem = await refused(await api.get(f"/v1/operations/{identity}"), 404)

    assert "no operation is known" in problem["detail"]
    await refused(await api.post(f"/v1/operations/{identity}/cancel"), 404)


async def test_a_reply_is_held_until_the_end(api: Client, worker: Worker, redis: Redis) -> None:
    call = await worker.granted("N001", id="a")
    replies = [held(api, "a"), held(api, "a")]
    await awaited(redis)

    await worker.finish(call)

    for reply in await asyncio.wait_for(asyncio.gather(*replies), SOON):
        assert (await reply.json())["status"] == "SUCCESS"


async def test_a_key_that_ends_meanwhile_is_not_told_the_end(
    disk: Path, settings: dict[str, str], worker: Worker, redis: Redis
) -> None:
    keys = FixedKeys()
    header = {"as-api-key": keys.make("shop", Scope.READ)}
    callers = Callers(keys, 1_000.0, always=True)
    async with serving_all(disk / "spool.sqlite", settings, callers=callers) as api:
        reply = asyncio.create_task(api.get("/v1/operations/a?wait=20", headers=header))
        await awaited(redis)
        keys.keys = type(keys.keys)()

        await worker.finish(await worker.granted("N001", id="shop/a"))

        await refused(await asyncio.wait_for(reply, SOON), 401)


async def test_a_reply_is_held_also_for_an_id_that_is_not_known_yet(
    api: Client, worker: Worker, redis: Redis
) -> None:
    reply = held(api, "early")
    await awaited(redis)

    await worker.finish(await worker.granted("N001", id="early"))

    assert (await (await asyncio.wait_for(reply, SOON)).json())["status"] == "SUCCESS"


async def test_what_has_not_ended_in_time_is_told_as_it_stands(api: Client, worker: Worker) -> None:
    await worker.granted("N001", id="a")

    assert (await told(api, "a", "?wait=0.01"))["status"] == "RUNNING"
    await refused(await api.get("/v1/operations/never?wait=0"), 404)


@pytest.mark.parametrize("wait", ["61", "-1", "nan", "inf", "soon", ""])
async def test_a_wait_that_is_none_is_refused(api: Client, wait: str) -> None:
    assert (
        "from 0 to 60"
        in (await refused(await api.get(f"/v1/operations/a?wait={wait}"), 400))["detail"]
    )


async def test_no_more_replies_are_held_than_leave_connections_for_others(
    disk: Path, settings: dict[str, str], worker: Worker, redis: Redis
) -> None:
    await worker.granted("N001", id="a")
    async with serving_all(disk / "spool.sqlite", settings, connections=2) as api:
        replies = [held(api, "a"), held(api, "a")]
        await awaited(redis)

        response = await api.get("/v1/operations/a?wait=60")

        assert "are held" in (await refused(response, 503))["detail"]
        assert response.headers["Retry-After"]
        assert (await told(api, "a"))["status"] == "RUNNING"
        for reply in replies:
            reply.cancel()


async def test_another_accounts_operations_are_not_known(
    disk: Path, settings: dict[str, str], worker: Worker
) -> None:
    keys = FixedKeys()
    shop, main = (
        {"as-api-key": keys.make(name, Scope.INGEST, Scope.READ)} for name in ("shop", "main")
    )
    await worker.granted("BUSY")
    await worker.parked("N001", id="order-7")
    await worker.parked("N002", id="shop/order-8")
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        ours = await api.get("/v1/operations/order-8", headers=shop)

        assert (await ours.json())["id"] == "order-8"
        for identity, key in (
            ("order-7", shop),
            ("main%2Forder-7", shop),
            ("main%2Forder-7", main),
            ("order-8", main),
            ("shop%2Forder-8", main),
            ("shop%2Forder-8", shop),
        ):
            path = f"/v1/operations/{identity}"
            unknown = await (await api.get("/v1/operations/never", headers=key)).read()
            for reply in (
                await api.get(path, headers=key),
                await api.get(f"{path}?wait=0.01", headers=key),
                await api.post(f"{path}/cancel", headers=key),
            ):
                assert (reply.status, await reply.read()) == (404, unknown)
        cancelled = await api.post("/v1/operations/order-8/cancel", headers=shop)
        assert (await cancelled.json())["status"] == "CANCELLED"


async def test_a_key_needs_the_scope(disk: Path, settings: dict[str, str]) -> None:
    keys = FixedKeys()
    reads, puts = ({"as-api-key": keys.make("main", scope)} for scope in (Scope.READ, Scope.INGEST))
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        await refused(await api.get("/v1/operations/a", headers=puts), 403)
        await refused(await api.post("/v1/operations/a/cancel", headers=reads), 403)
        await refused(await api.get("/v1/operations/a"), 401)


async def test_a_client_that_has_gone_is_not_waited_for(
    disk: Path, settings: dict[str, str], redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "LOOK_SECONDS", 0.05)
    async with serving_all(disk / "spool.sqlite", settings) as api:
        runner = web.AppRunner(api.app)  # the test client's own server cancels handlers by itself
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port := free_port()).start()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/operations/a?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await awaited(redis)

        writer.close()

        await awaited(redis, count=0)
        await runner.cleanup()


async def test_replies_that_are_held_are_given_when_the_process_stops(
    disk: Path, settings: dict[str, str], redis: Redis, worker: Worker
) -> None:
    await worker.granted("N001", id="a")
    async with serving_all(disk / "spool.sqlite", settings) as api:
        reply = held(api, "a")
        await awaited(redis)

        await asyncio.wait_for(api.server.close(), SOON)

        assert (await (await reply).json())["status"] == "RUNNING"


async def test_what_was_forgotten_is_told_without_its_parcel(api: Client, redis: Redis) -> None:
    left = {"status": "CANCELLED", "tracking": None, "hash": "ab"}
    await redis.set("tracking:status:a", json.dumps(left))

    forgotten = await told(api, "a")

    assert (forgotten["slug"], forgotten["number"]) == (None, None)


async def test_while_redis_is_away_operations_are_503_and_requests_are_taken(disk: Path) -> None:
    async with serving_all(
        disk / "spool.sqlite", {"TRACKER_REDIS__URL": "redis://127.0.0.1:1"}
    ) as api:
        response = await api.get("/v1/operations/a")
        assert "Redis does not answer" in (await refused(response, 503))["detail"]
        assert response.headers["Retry-After"]
        await refused(await api.get("/v1/operations/a?wait=60"), 503)
        assert (await post(api, USPS)).status == 202
        ready = await (await api.get("/readyz")).json()
        assert ready["ready"] is True
        assert "Redis does not answer" in ready["redis"]


async def test_an_api_with_redis_says_so(api: Client) -> None:
    assert (await (await api.get("/readyz")).json())["redis"] == ""


async def test_the_door_alone_has_no_operations(disk: Path) -> None:
    async with serving(disk / "spool.sqlite") as ingest:
        await refused(await ingest.get("/v1/operations/a"), 404)


async def test_what_only_the_archive_knows_is_told(
    api: Client, mongo_uri: str, database: str
) -> None:
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[database]["operations"].insert_one(ARCHIVED)

    old = await told(api, "order-1", "?wait=60")

    assert (old["status"], old["number"]) == ("SUCCESS", USPS["number"])
    assert old["finishedAt"] == "2026-05-04T08:00:01.700Z"


async def test_what_waits_is_cancelled_and_that_twice_is_the_same(
    api: Client, worker: Worker
) -> None:
    await worker.granted("BUSY")
    await worker.parked("N001", id="a")

    replies = [await (await api.post("/v1/operations/a/cancel")).json() for _ in range(2)]

    assert [each["status"] for each in replies] == ["CANCELLED"] * 2
    assert replies[0]["output"]["code"] == "cancelled"


async def test_a_call_that_runs_or_is_over_is_not_cancelled(api: Client, worker: Worker) -> None:
    call = await worker.granted("N001", id="a")
    running = await refused(await api.post("/v1/operations/a/cancel"), 409)
    await worker.finish(call)
    ended = await refused(await api.post("/v1/operations/a/cancel"), 409)

    assert (running["reason"], ended["reason"]) == ("running", "ended")
    assert "SUCCESS" in ended["detail"]


async def test_what_has_ended_is_resent_as_a_new_operation(
    whole: Client, worker: Worker, beanstalkd: Server, redis: Redis
) -> None:
    call = await worker.granted(USPS["number"], id="a", webhook="shop", cancel_on_reply=True)
    early = await refused(await whole.post("/v1/operations/a/resend"), 409)
    assert (await (await whole.get("/v1/operations/a")).json())["webhook"] == "shop"
    await worker.finish(call)

    traced = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    response = await whole.post("/v1/operations/a/resend", headers=traced)

    taken = await response.json()
    assert "RUNNING" in early["detail"]
    assert response.status == 202
    assert taken == {**USPS, "id": taken["id"], "spooled": False}
    [job] = [json.loads(body) for body in jobs_in(beanstalkd)]
    payload = job["payload"]
    assert payload["id"] == taken["id"] != "a"
    assert (payload["resend_of"], payload["webhook"], payload["max_age"]) == ("a", "shop", 0)
    assert payload["cancel_webhook_on_reply"] is True
    assert job["meta"] == traced
    await refused(await whole.post("/v1/operations/never/resend"), 404)
    await in_state(redis, taken["id"], State.QUEUED)


async def test_the_first_reply_that_tells_the_end_is_noted_where_that_is_asked_for(
    api: Client, worker: Worker, redis: Redis
) -> None:
    call = await worker.granted("N001", id="a")
    path = "/v1/operations/a"
    early = await (await api.get(f"{path}?mark_replied=1")).json()
    await worker.finish(call)
    await redis.pexpire("tracking:status:a", 90_000)
    assert (await api.head(f"{path}?mark_replied=1")).status == 200  # it tells nobody the end

    plain, first, again, later = [
        (await (await api.get(f"{path}{query}")).json()).get("repliedAt")
        for query in ("", "?mark_replied=1", "?mark_replied=1&wait=60", "")
    ]

    assert ("repliedAt" in early, plain) == (False, None)
    assert dt.datetime.fromisoformat(first).tzinfo == dt.UTC
    assert first == again == later
    assert 0 < await redis.pttl("tracking:status:a") <= 90_000
    await refused(await api.get(f"{path}?mark_replied=2"), 400)


async def test_what_is_archived_tells_of_the_reply_too(redis: Redis, worker: Worker) -> None:
    await worker.finish(await worker.granted("N001", id="a"))
    async with hearing(redis, redis, Background().beside) as ends:
        await ends.note_reply("a")
    text = await redis.get("tracking:status:a")

    document, _ = read_ended(Ended("a", 1, text))

    assert document is not None
    assert told_of_archive(document)["repliedAt"] == json.loads(text)["repliedAt"]
