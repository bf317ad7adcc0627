"""`/v1/operations/{id}/cancel` and `…/resend`."""

from __future__ import annotations

import datetime as dt
import json

from door_ground import USPS, Client, jobs_in, refused
from limits_bench import Worker
from operations_ground import in_state
from redis.asyncio import Redis

from devstack.servers import Server
from limits.archive import Ended
from limits.ends import hearing
from service.observe.background import Background
from service.results.operations import read_ended, told
from tracking.operation import State


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
    call = await worker.granted(USPS["number"], id="a")
    early = await refused(await whole.post("/v1/operations/a/resend"), 409)
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
    assert (payload["resend_of"], payload["max_age"]) == ("a", 0)
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
    assert told(document)["repliedAt"] == json.loads(text)["repliedAt"]
