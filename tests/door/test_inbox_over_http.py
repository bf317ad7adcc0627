"""`/v1/inbox`: relayed requests are found, shown as they came, sent again, edited and deleted."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import io
import json
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio
from aftership_ground import Bucket
from door_ground import Client, refused
from webhook_ground import (
    NOTED_AT,
    foreign,
    set_state,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
    stored,
)

from service.worker.deliveries.delivery import Delivery, DeliveryState
from service.worker.deliveries.foreign_request import BODY_MOST, HEAD_MOST, foreign_in
from service.worker.deliveries.service import ServiceState
from service.worker.deliveries.words import write_some
from tracking.request import Account

DEAD, OPEN, DELIVERED = DeliveryState.DEAD, DeliveryState.OPEN, DeliveryState.DELIVERED


async def listed(api: Client, query: str = "") -> dict[str, Any]:
    response = await api.get(f"/v1/inbox{query}")
    assert response.status == 200, await response.text()
    said: dict[str, Any] = await response.json()
    return said


async def ids(api: Client, query: str) -> list[str]:
    return [each["id"] for each in (await listed(api, query))["requests"]]


async def edited(api: Client, made: Delivery, key: str = "", **wished: Any) -> str:
    headers = {"Idempotency-Key": key} if key else {}
    response = await post(api, made, wished, **headers)
    assert response.status == 202, await response.text()
    said = await response.json()
    assert response.headers["Location"] == said["url"] == f"/v1/inbox/{said['id']}"
    return str(said["id"])


async def post(api: Client, made: Delivery, wished: dict[str, Any], **headers: str) -> Any:
    """Ask for an edited copy; as a file, because a body may be large."""
    body, kind = io.BytesIO(json.dumps(wished).encode()), {"Content-Type": "application/json"}
    return await api.post(f"/v1/inbox/{made.id}/edit", data=body, headers=kind | headers)


def request_of(bucket: Bucket, delivery: str) -> dict[str, Any]:
    """The event of a delivery."""
    [made] = bucket.deliveries.find({"_id": delivery})
    [event] = bucket.events.find({"_id": made["event"]})
    return dict(event)


async def test_requests_are_listed_page_by_page_the_newest_first(
    api: Client, bucket: Bucket
) -> None:
    relay = store_relay(bucket)
    store_delivery(bucket, relay, 9)
    made = [
        store_relayed(
            bucket, relay, foreign(relay, received_at=NOTED_AT + dt.timedelta(minutes=n // 2))
        )
        for n in range(5)
    ]

    first = await listed(api, "?limit=3")
    second = await listed(api, f"?limit=3&cursor={first['cursor']}")

    newest = sorted(made, key=lambda each: (each.made_at, each.id), reverse=True)
    found = [each["id"] for page in (first, second) for each in page["requests"]]
    assert found == [each.id for each in newest]
    assert (second["cursor"], second["searched_until"]) == (None, None)


async def test_a_request_is_listed_with_how_it_came_and_how_it_stands(
    api: Client, bucket: Bucket
) -> None:
    relay = store_relay(bucket)
    request = foreign(relay)
    made = store_relayed(bucket, relay, request, made=1, why="server_error", status=500)

    [told] = (await listed(api))["requests"]

    at = "2026-11-20T12:00:00Z"
    assert told == {
        "id": made.id,
        "service": "shopify",
        "state": "open",
        "why": "server_error",
        "status": 500,
        "made": 1,
        "round": 1,
        "received_at": at,
        "next_at": at,
        "ended_at": None,
        "method": "POST",
        "url": request.url,
        "edited_from": None,
    }


@pytest.mark.parametrize(
    "query",
    [
        "service=stripe",
        "state=dead",
        "status=503",
        "since=2026-11-20T12:09:00Z",
        "words=invoice",
        "words=INVOICE%20in_77",
        "words=invoice%20orders",
        "service=stripe&state=dead&status=503&words=invoice&since=2026-11-20T12:09:00Z",
    ],
)
async def test_each_filter_leaves_only_what_agrees_with_it(
    api: Client, bucket: Bucket, query: str
) -> None:
    store_relayed(bucket, store_relay(bucket), status=200, state=DELIVERED)
    stripe = store_relay(bucket, "stripe")
    at = NOTED_AT + dt.timedelta(minutes=10)
    request = foreign(stripe, received_at=at, body=b'{"invoice": "in_77"}')
    meant = store_relayed(bucket, stripe, request, state=DEAD, status=503, ended_at=at)
    write_some(bucket)

    assert await ids(api, f"?{query}") == [meant.id]


async def test_what_came_before_a_time_and_what_had_no_answer_is_found(
    api: Client, bucket: Bucket
) -> None:
    relay = store_relay(bucket)
    made = store_relayed(bucket, relay, made=1, status=0, why="timeout")
    untried = store_relayed(bucket, relay)

    assert await ids(api, "?status=0") == [made.id]
    assert set(await ids(api, "?until=2026-11-20T12:00:01Z")) == {made.id, untried.id}
    assert await ids(api, "?until=2026-11-20T12:00:00Z") == []


async def test_a_search_by_words_says_up_to_when_all_is_found(api: Client, bucket: Bucket) -> None:
    relay = store_relay(bucket)
    first = store_relayed(bucket, relay)
    write_some(bucket)
    whole = await listed(api, "?words=orders%20gr%C3%BCn")
    late = store_relayed(
        bucket, relay, foreign(relay, received_at=NOTED_AT + dt.timedelta(hours=1))
    )

    said = await listed(api, "?words=orders")

    assert [each["id"] for each in said["requests"]] == [first.id]
    assert said["searched_until"] == "2026-11-20T13:00:00Z"
    assert dt.datetime.fromisoformat(whole["searched_until"]) > dt.datetime.now(
        dt.UTC
    ) - dt.timedelta(seconds=20)
    write_some(bucket)
    assert await ids(api, "?words=orders") == [late.id, first.id]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("service=nope", "service"),
        ("state=lost", "state"),
        ("status=600", "status"),
        ("words=a+-+b", "words"),
        ("words=" + "+".join(f"w{n}" for n in range(17)), "words"),
        ("since=yesterday", "since"),
        ("cursor=x", "cursor"),
        ("limit=0", "limit"),
        ("event=relay.request", "event"),
    ],
)
async def test_a_filter_that_cannot_be_meant_is_named(
    api: Client, query: str, parameter: str
) -> None:
    problem = await refused(await api.get(f"/v1/inbox?{query}"), 400)

    assert problem["parameter"] == parameter


async def test_a_request_is_shown_as_it_came_with_its_attempts(api: Client, bucket: Bucket) -> None:
    relay = store_relay(bucket)
    headers = (("X-A", "1"), ("content-type", "text/plain"), ("x-a", "caf\xc3\xa9"))
    request = foreign(relay, method="PUT", headers=headers, body="Grün".encode())
    made = store_relayed(bucket, relay, request, made=1, status=500)
    store_attempt(bucket, made, 1)

    told = await (await api.get(f"/v1/inbox/{made.id}")).json()

    assert (told["method"], told["target"], told["url"]) == ("PUT", request.target, request.url)
    assert told["headers"] == [list(each) for each in headers]
    assert (told["media_type"], told["body"]) == ("text/plain", "Grün")
    assert told["body_base64"] is None
    [attempt] = told["attempts"]
    assert (attempt["number"], attempt["status"], attempt["failure"]) == (1, 500, "server_error")
    assert (attempt["ms"], attempt["body"]) == (42, "out of order\\xff")


async def test_what_a_courier_pushed_says_what_became_of_it(api: Client, bucket: Bucket) -> None:
    made = store_relayed(bucket, store_relay(bucket, "fedex"))
    push = {"courier": "fedex", "verified": True, "why": "", "parcels": ["fedex:1234567890"]}
    bucket.events.update_one({"_id": made.event}, {"$set": {"push": push}})

    assert (await (await api.get(f"/v1/inbox/{made.id}")).json())["push"] == push


async def test_a_body_that_is_no_text_is_shown_in_base64(api: Client, bucket: Bucket) -> None:
    relay = store_relay(bucket)
    made = store_relayed(bucket, relay, foreign(relay, body=b"\x00\xff", headers=()))

    told = await (await api.get(f"/v1/inbox/{made.id}")).json()

    assert (told["body"], base64.b64decode(told["body_base64"])) == (None, b"\x00\xff")
    assert told["media_type"] is None


async def test_what_is_not_kept_any_more_is_null_and_is_neither_resent_nor_edited(
    api: Client, bucket: Bucket
) -> None:
    made = store_relayed(bucket, store_relay(bucket), state=DEAD, ended_at=NOTED_AT)
    bucket.events.delete_many({})

    told = await (await api.get(f"/v1/inbox/{made.id}")).json()

    assert (told["method"], told["headers"], told["body"]) == (None, [], None)
    for act in ("resend", "edit"):
        problem = await refused(await api.post(f"/v1/inbox/{made.id}/{act}", json={}), 409)
        assert "not kept any more" in problem["detail"]


async def test_what_is_resent_is_due_now_and_its_body_is_kept_for_it(
    api: Client, bucket: Bucket
) -> None:
    made = store_relayed(bucket, store_relay(bucket), state=DEAD, made=3, ended_at=NOTED_AT)

    response = await api.post(f"/v1/inbox/{made.id}/resend")

    assert (response.status, (await response.json())["state"]) == (202, "open")
    now = stored(bucket, made)
    assert (now.state, now.round, now.round_from, now.ended_at) == (OPEN, 2, 3, None)
    until = request_of(bucket, made.id)["until"]
    assert until > dt.datetime.now(dt.UTC) + dt.timedelta(days=127)


async def test_what_was_completed_is_sent_once_its_service_has_a_destination(
    api: Client, bucket: Bucket
) -> None:
    courier = store_relay(bucket, "fedex")
    bucket.services.update_one({"_id": courier.id}, {"$set": {"destination": ""}})
    made = store_relayed(
        bucket, courier, state=DeliveryState.COMPLETED, why="nowhere_to_go", ended_at=NOTED_AT
    )

    problem = await refused(await api.post(f"/v1/inbox/{made.id}/resend"), 409)
    assert "has no destination" in problem["detail"]
    bucket.services.update_one({"_id": courier.id}, {"$set": {"destination": "https://a.example"}})
    assert (await api.post(f"/v1/inbox/{made.id}/resend")).status == 202


async def test_an_edited_copy_is_a_new_request_that_names_the_old_one(
    api: Client, bucket: Bucket
) -> None:
    relay = store_relay(bucket)
    request = foreign(relay)
    old = store_relayed(bucket, relay, request, state=DEAD, ended_at=NOTED_AT)

    name = await edited(
        api, old, method="PATCH", target="/other?x=1", headers=[["X-A", "1"]], body="Grün"
    )

    told = await (await api.get(f"/v1/inbox/{name}")).json()
    assert (told["state"], told["edited_from"], told["service"]) == ("open", old.id, "shopify")
    made = foreign_in(request_of(bucket, name))
    assert (made.method, made.target, made.body) == ("PATCH", "/other?x=1", "Grün".encode())
    assert made.headers == (("X-A", "1"),)
    assert made.url == request.url.removesuffix(request.target) + "/other?x=1"
    assert made.label == request.label
    assert stored(bucket, old) == old


async def test_what_is_not_named_stays_byte_for_byte(api: Client, bucket: Bucket) -> None:
    relay = store_relay(bucket)
    request = foreign(relay, body=b"\x00\xff" * 1_000, headers=(("X", "\xe9"), ("X", "2")))
    old = store_relayed(bucket, relay, request)

    made = foreign_in(request_of(bucket, await edited(api, old)))

    same = replace(made, id=request.id, received_at=request.received_at)
    assert (same, made.id == request.id) == (request, False)


async def test_edited_twice_with_one_key_it_is_one_request(api: Client, bucket: Bucket) -> None:
    relay = store_relay(bucket)
    old, other = store_relayed(bucket, relay), store_relayed(bucket, relay)

    first = await edited(api, old, "key-1", body="new")
    again = await asyncio.gather(*(edited(api, old, "key-1", body="new") for _ in range(3)))
    others = {await edited(api, old, "key-2", body="new"), await edited(api, other, "key-1")}
    random = {await edited(api, old, body="new"), await edited(api, old, body="new")}

    assert {first, *again} == {first}
    assert len({first} | others | random) == 5
    headers = {"Idempotency-Key": "key-1"}
    response = await api.post(f"/v1/inbox/{old.id}/edit", json={"body": "b"}, headers=headers)
    assert "another request" in (await refused(response, 409))["detail"]
    assert bucket.deliveries.count_documents({}) == 7


@pytest.mark.parametrize(
    ("wished", "parameter"),
    [
        ({"method": "CONNECT"}, "method"),
        ({"method": "TRACE"}, "method"),
        ({"method": "GET /"}, "method"),
        ({"target": "orders"}, "target"),
        ({"target": "/a b"}, "target"),
        ({"target": "/a\r\nHost: b"}, "target"),
        ({"target": "/a/../b"}, "target"),
        ({"target": "/a/%2E%2e"}, "target"),
        ({"target": "/ü€"}, "target"),
        ({"headers": [["X", "a\r\nY: b"]]}, "headers"),
        *(({"headers": [[name, "a"]]}, "headers") for name in ("X Y", "X: Y")),
        ({"headers": [["X", "€"]]}, "headers"),
        ({"headers": [["X", "a" * HEAD_MOST]]}, "headers"),
        ({"body": "a" * (BODY_MOST + 1)}, "body"),
        ({"body": "a", "body_base64": "YQ=="}, "body"),
        ({"headers": [["X", 1]]}, "headers"),
    ],
)
async def test_what_no_door_would_take_is_not_made_by_an_edit(
    api: Client, bucket: Bucket, wished: dict[str, Any], parameter: str
) -> None:
    old = store_relayed(bucket, store_relay(bucket))

    problem = await refused(await post(api, old, wished), 422)

    assert parameter in problem.get("parameter", problem["detail"])
    assert bucket.events.count_documents({}) == 1


async def test_a_body_of_a_mebibyte_is_taken_and_more_is_too_large(
    api: Client, bucket: Bucket
) -> None:
    old, body = store_relayed(bucket, store_relay(bucket)), b"\xff" * BODY_MOST

    name = await edited(api, old, body_base64=base64.b64encode(body).decode())
    response = await post(api, old, {"body": "a" * (2 << 20)})

    assert foreign_in(request_of(bucket, name)).body == body
    assert response.status == 413


async def test_to_a_service_that_takes_nothing_no_edited_copy_is_sent(
    api: Client, bucket: Bucket
) -> None:
    relay = store_relay(bucket)
    old = store_relayed(bucket, relay)
    set_state(bucket, relay, ServiceState.DISABLED)

    problem = await refused(await api.post(f"/v1/inbox/{old.id}/edit", json={}), 409)

    assert "make it active first" in problem["detail"]


@pytest.mark.parametrize("state", DeliveryState)
async def test_what_is_deleted_goes_with_its_body_and_its_attempts(
    api: Client, bucket: Bucket, state: DeliveryState
) -> None:
    relay = store_relay(bucket)
    made, other = store_relayed(bucket, relay, state=state, made=1), store_relayed(bucket, relay)
    store_attempt(bucket, made, 1)
    store_attempt(bucket, made, 2)  # stored, and not counted yet

    response = await api.delete(f"/v1/inbox/{made.id}")

    assert response.status == 204
    assert [each["_id"] for each in bucket.deliveries.find()] == [other.id]
    assert bucket.events.count_documents({}) == 1
    assert bucket.attempts.count_documents({}) == 0
    await refused(await api.delete(f"/v1/inbox/{made.id}"), 404)


async def test_an_attempt_in_flight_ends_before_what_it_sends_goes(
    api: Client, bucket: Bucket, redis: redis.asyncio.Redis
) -> None:
    relay = store_relay(bucket)
    made = store_relayed(bucket, relay)
    await redis.hset(f"wait_inflight:{relay.line}", f"={made.id}", "call")  # type: ignore[misc]

    deleting = asyncio.create_task(api.delete(f"/v1/inbox/{made.id}"))
    await asyncio.sleep(0.5)
    state, there = stored(bucket, made).state, bucket.events.count_documents({})
    store_attempt(bucket, made, 1)
    await redis.delete(f"wait_inflight:{relay.line}")

    assert (await deleting).status == 204
    assert (state, there) == (DeliveryState.CANCELLED, 1)
    assert bucket.attempts.count_documents({}) == bucket.deliveries.count_documents({}) == 0


async def test_another_account_s_request_is_not_there_nor_is_a_webhook(
    api: Client, bucket: Bucket
) -> None:
    theirs = store_relayed(bucket, store_relay(bucket, account=Account("shop")))
    webhook = store_delivery(bucket, store_service(bucket))

    assert (await listed(api))["requests"] == []
    for made in (theirs, webhook):
        for answer in (
            await api.get(f"/v1/inbox/{made.id}"),
            await api.post(f"/v1/inbox/{made.id}/resend"),
            await api.post(f"/v1/inbox/{made.id}/edit", json={}),
            await api.delete(f"/v1/inbox/{made.id}"),
        ):
            await refused(answer, 404)
    assert bucket.deliveries.count_documents({}) == 2


async def test_each_act_is_recorded(api: Client, bucket: Bucket) -> None:
    made = store_relayed(bucket, store_relay(bucket))

    await api.post(f"/v1/inbox/{made.id}/resend")
    copy = await edited(api, made)
    await api.delete(f"/v1/inbox/{made.id}")

    target = {"account": "main", "delivery": made.id}
    found = [(each["act"], each["target"], each["outcome"]) for each in bucket.audit.find()]
    assert found == [
        ("delivery resend", target, {}),
        ("inbox edit", target, {"made": copy}),
        ("inbox delete", target, {}),
    ]
