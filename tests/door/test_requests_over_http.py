"""`POST /v1/requests`: what is taken, and what is refused and why."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

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
    serving,
)

from devstack.servers import Server
from service.http import reading
from service.http import requests as requests_module
from service.http.backend import door as door_module
from service.http.exchange import BODY_MOST
from service.worker.tubes.envelope import decode_request


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
        "webhook": "shop",
        "cancel_webhook_on_reply": True,
        "tracking_postal_code": "8000",
    }
    ours = {"account": "somebody", "resend_of": "x", "type": "wait_list"}
    traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    response = await post(client, USPS | members | {"id": "order-7"} | ours, traceparent=traced)

    assert response.status == 202
    [body] = jobs_in(beanstalkd)
    job = json.loads(body)
    assert job["payload"] == USPS | members | {"id": "order-7"}
    assert set(job["meta"]) == {"enqueued_at", "traceparent"}
    request = decode_request(body, CATALOGUE.resolve)
    assert (request.id, request.max_age, request.traceparent) == ("order-7", 0.0, traced)


async def test_a_member_that_means_nothing_is_named_with_the_one_that_was_meant(
    client: Client,
) -> None:
    alone = await (await post(client, USPS | {"max_aeg": 0, "colour": "red"})).json()
    several = await (await post(client, [USPS, USPS | {"orgin": "MANUAL"}])).json()

    assert alone["ignored"] == [
        {"name": "colour", "did_you_mean": None},
        {"name": "max_aeg", "did_you_mean": "max_age"},
    ]
    assert several["ignored"] == [{"name": "orgin", "did_you_mean": "origin"}]


async def test_without_a_slug_the_one_courier_is_found_that_has_such_numbers(
    client: Client, beanstalkd: Server
) -> None:
    taken = await (await post(client, {"number": USPS["number"]})).json()
    several = await refused(await post(client, {"number": "400123456789"}), 422)
    nobody = await refused(await post(client, {"number": "HELLO-WORLD"}), 422)

    assert taken["slug"] == "usps"
    assert [each["slug"] for each in payloads(beanstalkd)] == ["usps"]
    assert several["reason"] == nobody["reason"] == "no_slug"
    assert "name the courier (`slug`): it may be of " in several["detail"]
    assert "no courier's numbers look like this one" in nobody["detail"]


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


async def test_a_table_is_taken_as_its_rows_say(client: Client, beanstalkd: Server) -> None:
    table = b"number;slug;id;max age\n" + USPS["number"].encode() + b";;row-1;60\n12;usps;;\n"
    kind = {"Content_Type": "text/csv"}

    response = await post(client, table, "?skip_bad=1", **kind)

    said = await response.json()
    assert (response.status, [each["slug"] for each in said["requests"]]) == (202, ["usps"])
    assert [(each["index"], each["reason"]) for each in said["left_out"]] == [(1, "bad_number")]
    assert payloads(beanstalkd) == [USPS | {"id": "row-1", "max_age": 60.0}]
    bad = await refused(await post(client, b"number,colour\n1,red\n", **kind), 422)
    assert bad["reason"] == "bad_table"
    assert "'colour' is not a known field" in bad["detail"]


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


async def test_an_idempotency_key_beside_another_id_or_of_several_is_refused(
    client: Client, beanstalkd: Server
) -> None:
    assert (
        "differ"
        in (await refused(await post(client, USPS | {"id": "a"}, Idempotency_Key="b"), 400))[
            "detail"
        ]
    )
    assert (
        "one request"
        in (await refused(await post(client, [USPS], Idempotency_Key="b"), 400))["detail"]
    )
    for strange in (["b"], {"b": 1}, 7):
        body = USPS | {"id": strange}
        await refused(await post(client, body, Idempotency_Key="b"), 400)
    assert (await refused(await post(client, USPS, Idempotency_Key="a b"), 422))[
        "reason"
    ] == "bad_id"
    assert jobs_in(beanstalkd) == []


async def test_a_service_is_told_of_requests_with_an_id_only(
    client: Client, beanstalkd: Server
) -> None:
    named = USPS | {"webhook": "shop"}
    assert (await refused(await post(client, named), 422))["reason"] == "bad_webhook"
    bad = named | {"id": "a", "cancel_webhook_on_reply": "yes"}
    assert (await refused(await post(client, bad), 422))["reason"] == "bad_webhook"
    bad = named | {"id": "a", "webhook": "The Shop"}
    assert (await refused(await post(client, bad), 422))["reason"] == "bad_webhook"

    assert (await post(client, named | {"id": "a"})).status == 202
    assert (await post(client, named, Idempotency_Key="b")).status == 202

    told = [json.loads(job)["payload"]["webhook"] for job in jobs_in(beanstalkd)]
    assert told == ["shop", "shop"]


async def test_one_bad_request_is_named_by_its_place_and_none_is_taken(
    client: Client, beanstalkd: Server
) -> None:
    bad = [USPS, {"slug": "usp", "number": "94001"}, OTHER, {"slug": "ups"}, "ups"]

    problem = await refused(await post(client, bad), 422)

    assert (problem["index"], problem["reason"]) == (1, "unknown_slug")
    assert "did you mean" in problem["detail"]
    assert [(each["index"], each["reason"]) for each in problem["errors"]] == [
        (1, "unknown_slug"),
        (3, "bad_number"),
        (4, "bad_shape"),
    ]
    assert jobs_in(beanstalkd) == []


async def test_a_bad_request_alone_is_told_without_a_place(client: Client) -> None:
    problem = await refused(await post(client, {"slug": "usps", "number": "!!"}), 422)

    assert problem["reason"] == "bad_number"
    assert "index" not in problem


async def test_an_input_that_the_courier_requires_is_asked_for_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CATALOGUE, "required_fields", lambda _: ("tracking_key",), raising=False)

    problem = await refused(await post(client, USPS), 422)

    assert problem["reason"] == "missing_field"
    assert "usps needs `tracking_key`" in problem["detail"]


async def test_an_id_that_another_parcel_has_is_a_conflict(
    client: Client, beanstalkd: Server
) -> None:
    mine = USPS | {"id": "order-7"}
    await post(client, mine)

    for body in (OTHER | {"id": "order-7"}, [OTHER | {"id": "x"}, USPS | {"id": "x"}]):
        assert (await refused(await post(client, body), 409))["reason"] == "id_reused"
    assert (await post(client, mine)).status == 202
    assert [each["number"] for each in payloads(beanstalkd)] == [USPS["number"]] * 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b'{"slug":"usps","slug":"ups","number":"94001"}', "bad_json"),
        (b'{"slug":"usps","number":NaN}', "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b"1" * 5_000, "bad_json"),
        (b'{"slug":"\xff"}', "bad_utf8"),
    ],
    ids=["empty", "cut", "twice", "nan", "deep", "endless", "latin"],
)
async def test_what_is_no_json_is_refused(client: Client, body: bytes, reason: str) -> None:
    assert (await refused(await post(client, body), 400))["reason"] == reason


async def test_a_post_is_refused_at_once_where_another_waits_for_seconds(
    client: Client, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "LATE_SECONDS", 0.2)
    beanstalkd.pause()
    waits = asyncio.create_task(post(client, USPS))
    try:
        deadline = time.monotonic() + 10
        while (late := await post(client, b"is not read")).status != 503:
            assert time.monotonic() < deadline
        assert late.headers["Retry-After"] == "5"
        assert "wait" in (await refused(late, 503))["detail"]
    finally:
        beanstalkd.resume()

    assert (await waits).status == 202
    assert (await post(client, USPS)).status == 202


async def test_only_so_much_is_posted_at_once(
    client: Client, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "IN_HAND_MOST", 100)
    beanstalkd.pause()
    try:
        some = await asyncio.gather(*(post(client, [USPS] * 2) for _ in range(3)))
    finally:
        beanstalkd.resume()

    late = [each for each in some if each.status == 503]
    assert len(late) == 2
    assert {each.headers["Retry-After"] for each in late} == {"5"}
    assert (await post(client, [USPS] * 2)).status == 202


async def test_what_is_too_much_is_refused(
    client: Client, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = b'{"slug":"usps","number":"94001","x":"' + b"x" * BODY_MOST + b'"}'

    assert str(BODY_MOST) in (await refused(await post(client, large), 413))["detail"]
    assert "1000 at most" in (await refused(await post(client, [USPS] * 1_001), 413))["detail"]
    await refused(await post(client, []), 422)
    assert jobs_in(beanstalkd) == []
    monkeypatch.setattr(requests_module, "REQUESTS_MOST", 3)
    assert (await post(client, [USPS] * 3)).status == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "deflate"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
async def test_only_plain_json_is_read(client: Client, headers: dict[str, str]) -> None:
    assert "send" in (await refused(await post(client, USPS, **headers), 415))["detail"]


async def test_a_body_that_does_not_come_ends_its_request(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BODY_SECONDS", 0.05)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)

    response = await client.post(
        "/v1/requests", data=slowly(), headers={"Content-Type": "application/json"}
    )

    await refused(response, 408)


async def test_where_nothing_is_durable_the_client_is_told_when_to_come_again(disk: Path) -> None:
    async with serving(disk / "nowhere" / "spool.sqlite", NOWHERE) as client:
        response = await post(client, [USPS | {"id": "a"}, OTHER | {"id": "b"}])

        problem = await refused(response, 503)
        assert int(response.headers["Retry-After"]) > 0
        assert problem["ids"] == ["a", "b"]
        await refused(await client.get("/readyz"), 503)
        assert (await client.get("/livez")).status == 200


async def test_what_is_not_there_and_what_goes_wrong_are_problems_too(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await refused(await client.get("/nothing"), 404)
    response = await client.put("/v1/requests")
    await refused(response, 405)
    assert response.headers["Allow"] == "POST"

    def broken(*_: object) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr(requests_module, "jobs_of_posted", broken)
    problem = await refused(await post(client, USPS), 500)
    assert "secret" not in str(problem)
