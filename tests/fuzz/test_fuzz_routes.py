"""Whatever is asked of a route of `/openapi.json` is answered as it says there, and never 500.

schemathesis draws requests out of the document, such as it allows and such as it forbids. Most of
them name what is there, so that they get further than the first check.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pymongo
import pytest
import schemathesis
from aiohttp import web
from described_client import document_of
from door_ground import USPS, Client
from hypothesis import assume, given
from hypothesis import strategies as st
from operations_ground import ARCHIVED, serving_all, working
from portion import examples
from schemathesis import Case, GenerationMode
from webhook_ground import KEY, store_attempt, store_delivery, store_service

from devstack.servers import Server
from service.http.aftership.couriers import Detect
from service.http.aftership.reading import Complete, Create, Update
from service.http.exchange import About, Parameter, Route
from service.http.openapi import document
from service.http.operations import WAIT_MOST

pytestmark = pytest.mark.portion

PATIENCE = 20.0
"""Seconds for one answer, on a busy machine."""

WAIT = 0.01
"""Seconds for which replies are held, in place of up to a minute."""

THERE: dict[str, list[str]] = {
    "id": ["running", "waiting", "ended", "order-1", "usps:N003:job", "shipped", "SENT"],
    "name": ["orders", "bills"],
    "service": ["orders"],
    "destination": ["https://shop.example/hooks"],
    "state": ["active", "paused", "dead", "open"],
    "event": ["parcel.changed"],
    "slug": ["usps", "ups", "hkpost"],
    "version": ["2026-07", "2025-07"],
    "tracking_number": [USPS["number"], "1Z12345E0205271688", "N001"],
    "number": ["N001", "N002", "N003", USPS["number"]],
}
"""What is there under these names, in paths, queries and bodies."""

LINE_MOST = 8_000
"""Characters: longer ones never reach a route."""

AFTERSHIP = "/tracking/{version}"
OF_LISTS = (
    *("keyword", "cursor", "limit", "slug", "tracking_numbers", "tag", "fields", "lang", "origin"),
    *("created_at_min", "created_at_max", "updated_at_min", "shipment_tags", "return_to_sender"),
)

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
LINES = "application/x-ndjson"


def request_of(draw: st.DrawFn, case: Case) -> dict[str, Any]:
    """What the client of the tests is to send for a case."""
    there = draw(st.integers(0, 3)) > 0
    query = dict(case.query or {})
    body = case.body
    if there:
        for members in (case.path_parameters, query, *(body if isinstance(body, list) else [body])):
            for name in set(members if isinstance(members, dict) else ()) & set(THERE):
                members[name] = draw(st.sampled_from(THERE[name]))
    with contextlib.suppress(KeyError, TypeError, ValueError):
        if 0 <= float(query["wait"]) <= WAIT_MOST:
            query["wait"] = WAIT
    headers = {name: str(value) for name, value in (case.headers or {}).items()}
    assume(all(value.isprintable() for value in headers.values()))
    data = None
    if isinstance(body, bytes | str):
        data = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    elif case.media_type:
        lines = isinstance(body, list) and draw(st.booleans())
        data = b"\n".join(map(_json, body)) if lines else _json(body)
        headers["Content-Type"] = LINES if lines else case.media_type
    path = f"{case.formatted_path}?{urlencode(query, doseq=True)}"
    assume(len(path) < LINE_MOST)
    return {"method": case.method, "path": path, "headers": headers, "data": data}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def drawn_from(described: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    found = [each.ok() for each in schemathesis.openapi.from_dict(described).get_all_operations()]
    # Bodies are where most can go wrong.
    more = [each for each in found if each.body for _ in range(4)]
    cases = [each.as_strategy(mode) for each in (*found, *more) for mode in MODES]

    @st.composite
    def requests(draw: st.DrawFn) -> dict[str, Any]:
        return request_of(draw, draw(cases[draw(st.integers(0, len(cases) - 1))]))

    return requests()


def of_aftership() -> dict[str, Any]:
    """A document of AfterShip's routes, of which ours says nothing."""

    async def nothing(_: web.Request) -> web.Response:
        return web.Response()

    def about(*names: str, body: Any = None) -> About:
        return About(
            "-", None, {}, parameters=tuple(Parameter(each, str) for each in names), body=body
        )

    abouts = {
        ("GET", f"{AFTERSHIP}/couriers"): about("slug"),
        ("GET", f"{AFTERSHIP}/couriers/all"): about(),
        ("POST", f"{AFTERSHIP}/couriers/detect"): about(body=Detect),
        ("GET", f"{AFTERSHIP}/trackings"): about(*OF_LISTS),
        ("POST", f"{AFTERSHIP}/trackings"): about(body=Create),
    }
    for named in ("{id}", "{slug}/{number}"):
        one = f"{AFTERSHIP}/trackings/{named}"
        abouts |= {
            ("GET", one): about("fields", "lang"),
            ("PUT", one): about(body=Update),
            ("DELETE", one): about(),
            ("POST", f"{one}/retrack"): about(),
            ("POST", f"{one}/mark-as-completed"): about(body=Complete),
        }
    return document([Route(*each, nothing, said) for each, said in abouts.items()])


@pytest.fixture
async def api(
    disk: Path, redis_url: str, mongo_uri: str, database: str, beanstalkd: Server
) -> AsyncIterator[Client]:
    """All routes, and something behind most of them."""
    stores = {
        "TRACKER_REDIS__URL": redis_url,
        "TRACKER_MONGODB__URI": mongo_uri,
        "TRACKER_MONGODB__DATABASE": database,
        "TRACKER_WEBHOOKS__KEYS": KEY,
    }
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as mongo:
        mongo[database]["operations"].insert_one(ARCHIVED)
        sent = store_delivery(mongo[database], store_service(mongo[database]), id="SENT", made=1)
        store_attempt(mongo[database], sent, 1)
    async with (
        working(redis_url) as worker,
        serving_all(disk / "spool", stores, beanstalkd) as made,
    ):
        await worker.finish(await worker.granted("N003", id="ended"))
        await worker.granted("N001", id="running")
        await worker.parked("N001", id="waiting")
        shipped = USPS["slug"], USPS["number"]
        body = dict(zip(("slug", "tracking_number"), shipped, strict=True)) | {"id": "shipped"}
        assert (await made.post("/tracking/2026-07/trackings", json=body)).status == 201
        yield made


async def none_is_a_defect(api: Client, found: dict[str, Any], count: int) -> None:
    """Ask what is drawn from a document."""
    loop = asyncio.get_running_loop()

    async def ask(asked: dict[str, Any]) -> int:
        async with asyncio.timeout(PATIENCE):
            response = await api.request(allow_redirects=False, **asked)
            response.close()
            return response.status

    @examples(count)
    @given(drawn_from(found))
    def is_answered(asked: dict[str, Any]) -> None:
        status = asyncio.run_coroutine_threadsafe(ask(asked), loop).result()
        assert status != HTTPStatus.INTERNAL_SERVER_ERROR

    await asyncio.to_thread(is_answered)


async def test_no_request_that_is_drawn_from_the_document_is_answered_500(api: Client) -> None:
    assert api.app
    await none_is_a_defect(api, json.loads(await document_of(api.app)), 40)


async def test_no_request_to_aftership_s_routes_is_answered_500(api: Client) -> None:
    found = of_aftership()
    assert api.app
    served = {
        (each.method.lower(), each.resource.canonical)
        for each in api.app.router.routes()
        if each.resource
        and each.resource.canonical.startswith(AFTERSHIP)
        and each.method not in {"*", "HEAD"}  # HEAD goes with each GET
    }

    assert {(method, path) for path, each in found["paths"].items() for method in each} == served
    await none_is_a_defect(api, found, 20)
