"""`POST /v1/requests`: what is taken, and what is put."""

from __future__ import annotations

import json

import pytest
from door_ground import (
    CATALOGUE,
    LINES,
    NOWHERE,
    OTHER,
    USPS,
    Client,
    jobs_in,
    payloads,
    post,
    refused,
)

from devstack.servers import Server
from service.tubes.envelope import decode_request


async def test_a_request_is_taken_with_the_id_under_which_it_is_put(
    client: Client, beanstalkd: Server
) -> None:
    response = await post(client, USPS)

    taken = await response.json()
    assert response.status == 202
    assert taken == {**USPS, "id": taken["id"], "spooled": False}
    assert payloads(beanstalkd) == [{**USPS, "id": taken["id"]}]


async def test_every_member_of_a_payload_reaches_the_job_and_no_other(
    client: Client, beanstalkd: Server
) -> None:
    members = {
        "origin": "AUTOMATIC",
        "max_age": 0,
        "expires_in": 60,
        "tracking_postal_code": "8000",
    }
    ours = {"account": "somebody", "webhook": "x", "type": "wait_list"}
    traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    response = await post(client, USPS | members | {"id": "order-7"} | ours, traceparent=traced)

    assert response.status == 202
    [body] = jobs_in(beanstalkd)
    job = json.loads(body)
    assert job["payload"] == USPS | members | {"id": "order-7"}
    assert set(job["meta"]) == {"enqueued_at", "traceparent"}
    request = decode_request(body, CATALOGUE.resolve)
    assert (request.id, request.max_age, request.traceparent) == ("order-7", 0.0, traced)


async def test_a_trace_that_is_none_does_not_travel(client: Client, beanstalkd: Server) -> None:
    await post(client, USPS, traceparent="x" * 5_000)

    [body] = jobs_in(beanstalkd)
    assert set(json.loads(body)["meta"]) == {"enqueued_at"}


@pytest.mark.parametrize("form", ["array", "lines"])
async def test_several_are_taken_in_their_order(
    client: Client, beanstalkd: Server, form: str
) -> None:
    several = [{**USPS, "id": f"r{number}"} for number in range(20)]
    lines = b"\n\n".join(json.dumps(each).encode() for each in several) + b"\r\n"
    response = await (post(client, several) if form == "array" else post(client, lines, **LINES))

    assert response.status == 202
    taken = (await response.json())["requests"]
    assert taken == [{**each, "spooled": False} for each in several]
    assert [each["id"] for each in payloads(beanstalkd)] == [each["id"] for each in several]


async def test_an_array_of_one_is_answered_as_an_array(client: Client) -> None:
    assert len((await (await post(client, [USPS])).json())["requests"]) == 1


@pytest.mark.parametrize("key", ["order-7", '"order-7"'])
async def test_the_idempotency_key_is_the_id(client: Client, beanstalkd: Server, key: str) -> None:
    for _ in range(2):
        response = await post(client, USPS, Idempotency_Key=key)
        assert (await response.json())["id"] == "order-7"

    assert [each["id"] for each in payloads(beanstalkd)] == ["order-7"] * 2


async def test_bad_ones_may_be_skipped(client: Client, beanstalkd: Server) -> None:
    lines = json.dumps(USPS).encode() + b"\n{\n" + json.dumps(OTHER).encode()

    response = await post(client, lines, "?skip_bad=1", **LINES)

    assert response.status == 202
    said = await response.json()
    assert [each["number"] for each in said["requests"]] == [USPS["number"], OTHER["number"]]
    assert [(each["index"], each["reason"]) for each in said["left_out"]] == [(1, "bad_json")]
    assert len(jobs_in(beanstalkd)) == 2
    await refused(await post(client, [{}], "?skip_bad=1"), 422)
    await refused(await post(client, [USPS], "?skip_bad=maybe"), 400)


async def test_without_a_server_they_are_taken_and_spooled(alone: Client) -> None:
    assert (await (await post(alone, USPS)).json())["spooled"] is True
    several = await (await post(alone, [USPS, OTHER])).json()
    assert [each["spooled"] for each in several["requests"]] == [True, True]

    response = await alone.get("/readyz")

    ready = await response.json()
    assert (response.status, ready["ready"], ready["spooled"]) == (200, True, 3)
    assert NOWHERE in ready["tubes"]
