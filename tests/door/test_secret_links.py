"""`/v1/links`: made, listed and revoked by an account; `/start/…`: used by who has the secret."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aftership_ground import Bucket
from aiohttp import ClientResponse
from door_ground import USPS, Client, FixedKeys, payloads, refused
from operations_ground import serving_all

from devstack.servers import Server
from service.http.backend import links
from service.http.callers import Callers
from service.operator.keys import Scope, digest

FIELDS = {"tracking_postal_code": "90210", "max_age": 0.0}


async def made(api: Client, **more: object) -> dict[str, Any]:
    response = await api.post("/v1/links", json={**USPS, **more})
    assert response.status == 201, await response.text()
    said: dict[str, Any] = await response.json()
    return said


def path_of(link: dict[str, Any]) -> str:
    return "/start/" + link["url"].rpartition("/start/")[2]


def a_second_goes_by(bucket: Bucket) -> None:
    earlier = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=links.APART_SECONDS)
    bucket.links.update_many({}, {"$set": {"started_at": earlier}})


async def listed(api: Client, query: str = "") -> dict[str, Any]:
    said: dict[str, Any] = await (await api.get(f"/v1/links{query}")).json()
    return said


async def test_a_link_puts_its_request_each_time_that_it_is_used(
    whole: Client, beanstalkd: Server, bucket: Bucket
) -> None:
    link = await made(whole, title="Order 7", **FIELDS)
    first = await whole.post(path_of(link))
    a_second_goes_by(bucket)
    again = await whole.post(path_of(link))

    assert (first.status, again.status) == (201, 201)
    said = await first.json()
    url = f"http://{whole.host}:{whole.port}/v1/operations/{said['id']}"
    assert first.headers["Location"] == said["url"] == url
    one, other = payloads(beanstalkd)
    assert one == {**USPS, **FIELDS, "id": said["id"]}
    assert one["id"] != other["id"]
    looked = await (await whole.get(f"/v1/operations/{said['id']}?wait=0.05")).json()
    assert looked["status"] == "QUEUED"


async def test_its_secret_is_shown_once_and_kept_nowhere(
    whole: Client, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    link = await made(whole, title="Order 7")
    secret = path_of(link).removeprefix("/start/")
    await whole.post(path_of(link))
    await whole.post(path_of(link))

    [shown] = (await listed(whole))["links"]
    assert shown.pop("startedAt")
    del link["url"]
    assert shown == link
    assert (shown["title"], shown["slug"], shown["number"]) == ("Order 7", *USPS.values())
    [document] = bucket.links.find()
    assert document["sha256"] == digest(secret)
    assert secret not in repr(document) + "".join(capsys.readouterr())
    assert len(bytes.fromhex(secret)) * 8 == 192


async def test_a_link_starts_one_check_a_second_over_all_processes(
    disk: Path, settings: dict[str, str], beanstalkd: Server
) -> None:
    async with (
        serving_all(disk / "one.sqlite", settings, beanstalkd) as one,
        serving_all(disk / "other.sqlite", settings, beanstalkd) as other,
    ):
        link = await made(one)
        answers: list[ClientResponse] = await asyncio.gather(
            *(api.post(path_of(link)) for api in (one, other) for _ in range(8))
        )

    assert Counter(each.status for each in answers) == {201: 1, 429: 15}
    assert {each.headers.get("Retry-After") for each in answers if each.status == 429} == {"1"}
    assert len(payloads(beanstalkd)) == 1


async def test_one_that_was_revoked_is_as_unknown_as_one_that_never_was(whole: Client) -> None:
    link = await made(whole)
    gone = await whole.delete(f"/v1/links/{link['id']}")
    assert (gone.status, await gone.read()) == (204, b"")

    problems = [
        await refused(await whole.post(path), 404)
        for path in (path_of(link), f"/start/{'0' * 48}", "/start/x", "/start/%00%F0")
    ]

    assert problems == [problems[0]] * len(problems)
    await refused(await whole.delete(f"/v1/links/{link['id']}"), 404)
    assert await listed(whole) == {"links": [], "next": None}


async def test_another_accounts_links_are_not_known(
    disk: Path, settings: dict[str, str], beanstalkd: Server
) -> None:
    keys = FixedKeys()
    shop, main, reader = (
        {"as-api-key": keys.make(name, *scopes)}
        for name, scopes in (
            ("shop", [Scope.INGEST, Scope.READ]),
            ("main", [Scope.INGEST, Scope.READ]),
            ("shop", [Scope.READ]),
        )
    )
    callers = Callers(keys, 1_000.0)
    async with serving_all(disk / "spool", settings, beanstalkd, callers=callers) as api:
        link = await (await api.post("/v1/links", json=USPS, headers=shop)).json()
        path = f"/v1/links/{link['id']}"
        await refused(await api.delete(path, headers=main), 404)
        of_main = await (await api.get("/v1/links", headers=main)).json()
        await refused(await api.post("/v1/links", json=USPS, headers=reader), 403)
        await refused(await api.delete(path, headers=reader), 403)
        await refused(await api.post("/v1/links", json=USPS), 401)
        started = await api.post(path_of(link))

        assert of_main == {"links": [], "next": None}
        assert started.status == 201
        [job] = payloads(beanstalkd)
        assert job["account"] == "shop"


async def test_a_name_that_no_address_can_hold_makes_no_link(
    disk: Path, settings: dict[str, str]
) -> None:
    keys = FixedKeys()
    header = {"as-api-key": keys.make("shop", Scope.INGEST, Scope.READ)}
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:
        for host in ("é", "a b", "a/b?", 'a"b'):
            given = header | {"Host": host}
            await refused(await api.post("/v1/links", json=USPS, headers=given), 400)
        reader, writer = await asyncio.open_connection(api.host, api.port)
        body = json.dumps(USPS).encode()
        head = (
            "POST /v1/links HTTP/1.1\r\nHost: \xff\r\nContent-Type: application/json\r\n"
            f"as-api-key: {header['as-api-key']}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode("latin-1") + body)
        assert (await reader.readline()).split()[1] == b"400"
        writer.close()

        assert (await (await api.get("/v1/links", headers=header)).json())["links"] == []


@pytest.mark.parametrize("member", ["removed_at", "suspended"])
async def test_the_link_of_an_account_that_is_not_served_starts_nothing(
    disk: Path, settings: dict[str, str], beanstalkd: Server, bucket: Bucket, member: str
) -> None:
    keys = FixedKeys()
    shop = {"as-api-key": keys.make("shop", Scope.INGEST)}
    async with serving_all(
        disk / "spool", settings, beanstalkd, callers=Callers(keys, 1_000.0)
    ) as api:
        link = await (await api.post("/v1/links", json=USPS, headers=shop)).json()
        bucket.accounts.insert_one({"_id": "shop", member: dt.datetime.now(dt.UTC)})

        await refused(await api.post(path_of(link)), 404)
        assert payloads(beanstalkd) == []


async def test_links_are_listed_page_by_page_in_their_order(whole: Client) -> None:
    ids = [(await made(whole, title=f"{n}"))["id"] for n in range(5)]

    first = await listed(whole, "?limit=3")
    second = await listed(whole, f"?limit=3&after={first['next']}")

    assert [each["id"] for page in (first, second) for each in page["links"]] == ids
    assert second["next"] is None
    await refused(await whole.get("/v1/links?limit=0"), 400)


async def test_a_click_starts_a_check_only_where_that_is_set(
    whole: Client, disk: Path, settings: dict[str, str], beanstalkd: Server
) -> None:
    link = await made(whole)
    response = await whole.get(path_of(link))
    await refused(response, 405)
    assert (response.headers["Allow"], payloads(beanstalkd)) == ("POST", [])
    more = {
        "TRACKER_HTTP__LINKS_BY_GET": "true",
        "TRACKER_HTTP__PUBLIC_URL": "https://track.example.com/a",
    }

    async with serving_all(disk / "other", settings | more, beanstalkd) as api:
        clicked = await api.get(path_of(link))
        shown = await made(api)

    assert clicked.status == 201
    assert clicked.headers["Location"].startswith("https://track.example.com/a/v1/operations/link-")
    assert clicked.headers["Cache-Control"] == "no-store"
    assert shown["url"].startswith("https://track.example.com/a/start/")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"slug": "nobody"}, "nobody"),
        ({"number": "!"}, "number"),
        ({"id": "mine"}, "id means nothing here"),
        ({"account": "shop"}, "account means nothing here"),
        ({"origin": "AUTOMATIC"}, "origin means nothing here"),
        ({"title": "x" * 201}, "title"),
    ],
)
async def test_a_link_that_could_start_nothing_is_refused(
    whole: Client, bucket: Bucket, more: dict[str, str], says: str
) -> None:
    problem = await refused(await whole.post("/v1/links", json={**USPS, **more}), 422)

    assert says in problem["detail"]
    assert bucket.links.count_documents({}) == 0


@pytest.mark.parametrize("after", ["x", "6740", "zz40f0a1b2c3d4e5f6a7b8c9", "%FF", "_"])
async def test_a_mangled_cursor_is_no_empty_page(whole: Client, after: str) -> None:
    await made(whole)

    assert "after" in (await refused(await whole.get(f"/v1/links?after={after}"), 400))["detail"]
    assert len((await listed(whole, "?after="))["links"]) == 1


async def test_an_account_has_only_so_many(whole: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "LINKS_MOST", 1)
    await made(whole)

    assert "revoke" in (await refused(await whole.post("/v1/links", json=USPS), 409))["detail"]


async def test_nor_has_it_more_by_making_them_at_once(
    whole: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "LINKS_MOST", 3)

    replies = await asyncio.gather(*(whole.post("/v1/links", json=USPS) for _ in range(14)))

    assert {each.status for each in replies} <= {201, 409}
    assert sum(each.status == 201 for each in replies) == bucket.links.count_documents({}) <= 3


async def test_a_link_to_a_courier_that_is_gone_says_so(whole: Client, bucket: Bucket) -> None:
    link = await made(whole)
    bucket.links.update_one({}, {"$set": {"request.slug": "nobody"}})

    problem = await refused(await whole.post(path_of(link)), 409)

    assert problem["reason"] == "unknown_slug"


async def test_what_no_server_takes_is_spooled(api: Client) -> None:
    response = await api.post(path_of(await made(api)))

    assert json.loads(await response.text())["spooled"] is True
